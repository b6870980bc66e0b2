"""What `hora doctor` says about the lifecycle rules of a bucket."""

from typing import Any

import pytest

from hora.doctor.bucket import judged

ABORT = {"Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}


def levels(*rules: dict[str, Any], prefix: str = "team/", is_versioned: bool = False) -> list[tuple[str, str]]:
    findings = judged(rules, prefix, keep_days=365, is_versioned=is_versioned)
    return [(finding.level, finding.found) for finding in findings]


def expiring(prefix: str, days: int, **more: Any) -> dict[str, Any]:
    return {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Days": days}, **more}


@pytest.mark.parametrize(
    ("changes", "is_enough"),
    [
        ({}, True),
        ({"Filter": {"Prefix": "team/"}}, True),
        ({"Filter": {"Prefix": ""}}, True),
        ({"Filter": None, "Prefix": "te"}, True),
        ({"Status": "Disabled"}, False),
        ({"Filter": {"Prefix": "other/"}}, False),
        ({"Filter": {"Prefix": "team/jobs/a"}}, False),
        ({"Filter": {"And": {"Prefix": "", "Tags": [{"Key": "a", "Value": "b"}]}}}, False),
    ],
)
def test_a_rule_has_to_meet_all_unfinished_uploads_and_old_versions(changes: dict[str, Any], is_enough: bool) -> None:
    rule = {name: value for name, value in (ABORT | changes).items() if value is not None}
    assert (levels(rule) == []) is is_enough
    ((level, found),) = levels()
    assert (level, "unfinished uploads" in found) == ("warn", True)
    ((level, found),) = levels(ABORT, is_versioned=True)
    assert (level, "old versions" in found) == ("warn", True)
    versions = rule | {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}
    assert (levels(versions, is_versioned=True) == []) is is_enough


TAG = {"Key": "a", "Value": "b"}


@pytest.mark.parametrize(
    ("rule", "is_early"),
    [
        (expiring("team/jobs/", 365), False),
        (expiring("team/jobs/", 364), True),
        (expiring("team/jobs/0abc/", 5), True),
        (expiring("team/jobs/", 5, Expiration={"Date": "2030-01-31"}), True),
        (expiring("teams/", 5), False),
        (expiring("team/jobs/", 5, Status="Disabled"), False),
        (expiring("", 5, Filter={"And": {"Prefix": "team/", "Tags": [TAG]}}), False),
        (expiring("team/jobs/", 5, Expiration={"ExpiredObjectDeleteMarker": True}), False),
    ],
)
def test_files_that_go_before_hora_removes_them_are_a_warning(rule: dict[str, Any], is_early: bool) -> None:
    assert [level for level, _ in levels(ABORT, rule)] == ["warn"] * is_early


@pytest.mark.parametrize("prefix", ["", "team/", "team/hora-"])
def test_a_rule_that_removes_the_mark_is_an_error_however_late(prefix: str) -> None:
    ((level, found),) = levels(ABORT, expiring(prefix, 3650))
    assert (level, "hora-store.json" in found) == ("fail", True)
