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
