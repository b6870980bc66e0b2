"""The checks of `hora doctor` of the rules of an S3 bucket: they may keep what nobody needs, or remove what jobs need.

A server that has no such rules, or does not show them, is no error.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hora.doctor.findings import Finding

if TYPE_CHECKING:
    from jobs.copies.store import Store

_NO_RULES = "NoSuchLifecycleConfiguration"

Rule = Mapping[str, Any]


def rule_findings(store: "Store", *, keep_days: float) -> Iterator[Finding]:
    """The rules of the bucket. Raises `StoreAway`."""
    assert store.bucket is not None
    lifecycle = store.ask_bucket("get_bucket_lifecycle_configuration")
    refusal = lifecycle.get("Error", {}).get("Code")
    if refusal not in (None, _NO_RULES):
        return
    versioning = store.ask_bucket("get_bucket_versioning")
    is_versioned = versioning.get("Status") in ("Enabled", "Suspended")
    yield from judged(lifecycle.get("Rules", []), store.bucket[1], keep_days=keep_days, is_versioned=is_versioned)


def judged(rules: Sequence[Rule], prefix: str, *, keep_days: float, is_versioned: bool) -> Iterator[Finding]:
    """What the lifecycle rules of a bucket do to keys that begin with `prefix`."""
    active = [rule for rule in rules if rule.get("Status") == "Enabled"]
    whole = [rule for rule in active if not _filter(rule).keys() - {"Prefix"} and prefix.startswith(_prefix(rule))]
    if not any(rule.get("AbortIncompleteMultipartUpload") for rule in whole):
        found = "no rule of the bucket ends unfinished uploads: they stay, unseen, and cost"
        advice = "Add a lifecycle rule with AbortIncompleteMultipartUpload, for example after 7 days."
        yield Finding("store rules", "warn", found, advice)
    if is_versioned and not any(rule.get("NoncurrentVersionExpiration") for rule in whole):
        found = "the bucket keeps old versions, so what Hora removes stays"
        advice = "Add a lifecycle rule with NoncurrentVersionExpiration."
        yield Finding("store rules", "warn", found, advice)
    for rule in active:
        if (finding := _early(rule, prefix, keep_days)) is not None:
            yield finding


def _early(rule: Rule, prefix: str, keep_days: float) -> Finding | None:
    """What a rule removes that is still needed, if anything."""
    from jobs.copies.marks import MARK

    expiration = rule.get("Expiration") or {}
    when = f"after {expiration['Days']} days" if "Days" in expiration else f"on {expiration.get('Date')}"
    if not expiration.keys() & {"Days", "Date"} or not _covers_some(rule, prefix):
        return None
    name = f"rule {rule.get('ID') or '?'} removes files {when}"
    if (prefix + MARK).startswith(_prefix(rule)):
        advice = "Remove the rule, or give it a prefix outside the store. Hora removes old files itself."
        return Finding("store rules", "fail", f"{name}, also {MARK}, without which the store counts as emptied", advice)
    if expiration.get("Days", 0) < keep_days:
        advice = f"Let it wait for {keep_days:g} days, as HORA_KEEP_ARTIFACTS_DAYS, or remove it."
        return Finding("store rules", "warn", f"{name}, before Hora does", advice)
    return None


def _filter(rule: Rule) -> Mapping[str, Any]:
    """The conditions of a rule by name. Older rules have only a prefix, others join several conditions by `And`."""
    conditions = rule.get("Filter") or {"Prefix": rule.get("Prefix") or ""}
    return conditions.get("And") or conditions


def _prefix(rule: Rule) -> str:
    return str(_filter(rule).get("Prefix") or "")


def _covers_some(rule: Rule, prefix: str) -> bool:
    """Whether a rule may meet files of the store. Those have no tags."""
    if _filter(rule).keys() & {"Tag", "Tags"}:
        return False
    return _prefix(rule).startswith(prefix) or prefix.startswith(_prefix(rule))
