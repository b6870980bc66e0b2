"""`hora dataset`, against a whole stack."""

import json
from pathlib import Path

from hora.cli.exit_codes import FAILED, NOT_FOUND, USAGE
from hora.service import Service
from hora.stack.control import Stack
from tests.archives import zip_of
from tests.commands import hora


def test_datasets_are_listed_and_a_refused_archive_names_its_reason_and_can_be_removed(
    stack: Stack, client: Service, tmp_path: Path
) -> None:
    shown = hora(stack.home, "dataset", "ls").stdout
    for text in ("digits", "built in", "10 classes", "1 target"):
        assert text in shown
    listed = json.loads(hora(stack.home, "dataset", "ls", "--json").stdout)["items"]
    assert "fashion-mnist" in [one["name"] for one in listed]
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
    for wrong in ("show slip@x", "rm slip", "add slip x --image-size 9", "add No/Name x"):
        assert hora(stack.home, "dataset", *wrong.split()).returncode == USAGE, wrong
    nowhere = hora(stack.home, "dataset", "add", "slip", "/nowhere", "--upload")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "/nowhere does not exist on this machine" in nowhere.stderr
