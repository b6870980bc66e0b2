"""`hora dataset`, against a whole stack."""

import json
from pathlib import Path

from hora.cli.exit_codes import FAILED, NOT_FOUND, USAGE
from hora.service import Service
from hora.stack.control import Stack
from tests.archives import zip_of
from tests.commands import hora


def test_the_list_has_the_built_in_datasets(stack: Stack) -> None:
    shown = hora(stack.home, "dataset", "ls")
    assert shown.returncode == 0
    assert "digits" in shown.stdout
    assert "built in" in shown.stdout
    assert "10 classes" in shown.stdout
    assert "1 target" in shown.stdout
    assert "fashion-mnist" in [
        one["name"] for one in json.loads(hora(stack.home, "dataset", "ls", "--json").stdout)["items"]
    ]


def test_a_refused_archive_names_its_reason_and_can_be_removed(stack: Stack, client: Service, tmp_path: Path) -> None:
    archive = tmp_path / "slip.zip"
    archive.write_bytes(zip_of({"../../slip": b"x"}))
    added = hora(stack.home, "dataset", "add", "slip", str(archive), "--wait")
    assert added.returncode == FAILED
    assert "slip@1 is invalid" in added.stdout
    assert "leads outside the archive" in added.stdout
    assert "slip@1" in hora(stack.home, "dataset", "show", "slip").stdout
    assert hora(stack.home, "dataset", "rm", "slip@1").returncode == 0
    assert hora(stack.home, "dataset", "show", "slip@1").returncode == NOT_FOUND
    for upload in client.uploads():
        client.remove_upload(upload["id"])


def test_a_misspelt_option_is_a_usage_error(stack: Stack) -> None:
    assert hora(stack.home, "dataset", "show", "slip@x").returncode == USAGE
    assert hora(stack.home, "dataset", "rm", "slip").returncode == USAGE
    assert hora(stack.home, "dataset", "add", "slip", "x", "--image-size", "9").returncode == USAGE
    assert hora(stack.home, "dataset", "add", "No/Name", "x").returncode == USAGE
    nowhere = hora(stack.home, "dataset", "add", "slip", "/nowhere", "--upload")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "/nowhere does not exist on this machine" in nowhere.stderr
