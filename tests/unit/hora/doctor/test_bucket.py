"""What `hora doctor` says about the lifecycle rules of a bucket."""

from typing import Any

import pytest

from hora.doctor.bucket import judged

ABORT = {
    "ID": "uploads",
    "Status": "Enabled",
    "Filter": {},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
}


def levels(*rules: dict[str, Any], prefix: str = "team/", is_versioned: bool = False) -> list[tuple[str, str]]:
    findings = judged(rules, prefix, keep_days=365, is_versioned=is_versioned)
    return [(finding.level, finding.found) for finding in findings]


def expiring(prefix: str, days: int, **more: Any) -> dict[str, Any]:
    return {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": days}, **more}


def test_a_bucket_without_rules_keeps_unfinished_uploads() -> None:
    ((level, found),) = levels()
    assert (level, "unfinished uploads" in found) == ("warn", True)
    assert levels(ABORT) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"Status": "Disabled"},
        {"Filter": {"Prefix": "other/"}},
        {"Filter": {"Prefix": "team/jobs/a"}},
        {"Filter": {"And": {"Prefix": "", "Tags": [{"Key": "a", "Value": "b"}]}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_rule_that_does_not_meet_all_uploads_is_not_enough(changes: dict[str, Any]) -> None:
    assert len(levels({**ABORT, **changes})) == 1


@pytest.mark.parametrize("where", [{"Filter": {"Prefix": "team/"}}, {"Filter": {"Prefix": ""}}, {"Prefix": "te"}])
def test_a_rule_for_the_store_or_more_is_enough(where: dict[str, Any]) -> None:
    assert levels({**{name: value for name, value in ABORT.items() if name != "Filter"}, **where}) == []


def test_old_versions_are_kept_for_ever_without_a_rule() -> None:
    ((level, found),) = levels(ABORT, is_versioned=True)
    assert (level, "old versions" in found) == ("warn", True)
    assert levels({**ABORT, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}, is_versioned=True) == []


def test_files_that_go_before_hora_removes_them_are_a_warning() -> None:
    assert levels(ABORT, expiring("team/jobs/", 365)) == []
    ((level, found),) = levels(ABORT, expiring("team/jobs/", 364))
    assert (level, found) == ("warn", "rule old removes files after 364 days, before Hora does")
    assert len(levels(ABORT, expiring("team/jobs/0abc/", 5))) == 1
    assert levels(ABORT, expiring("teams/", 5)) == []
    assert levels(ABORT, expiring("team/jobs/", 5, Status="Disabled")) == []
    tagged = {"And": {"Prefix": "team/", "Tags": [{"Key": "a", "Value": "b"}]}}
    assert levels(ABORT, expiring("", 5, Filter=tagged)) == []
    assert levels(ABORT, expiring("", 5, Filter={"Tag": {"Key": "a", "Value": "b"}})) == []
    assert levels(ABORT, expiring("team/jobs/", 5, Expiration={"ExpiredObjectDeleteMarker": True})) == []
    assert len(levels(ABORT, expiring("team/jobs/", 5, Expiration={"Date": "2030-01-31"}))) == 1


@pytest.mark.parametrize("prefix", ["", "team/", "team/hora-"])
def test_a_rule_that_removes_the_mark_is_an_error_however_late(prefix: str) -> None:
    ((level, found),) = levels(ABORT, expiring(prefix, 3650))
    assert (level, "hora-store.json" in found) == ("fail", True)
