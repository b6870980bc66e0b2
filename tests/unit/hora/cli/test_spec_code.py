"""Folders of code in the documents of specs and studies."""

from pathlib import Path
from typing import Any

import pytest

from hora.cli.exit_codes import USAGE
from hora.cli.explain import explain
from hora.cli.spec_code import clear_old_commit, pack_code
from hora.cli.spec_files import read_document, with_options
from hora.service.code_folders import UnsendableCode, code_folder

DIGEST = "0a" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"print('{name}')")
    return tmp_path


@pytest.mark.parametrize("text", ["code: .", '{"code": "."}'])
def test_a_folder_in_a_file_is_relative_to_the_file(folder: Path, text: str) -> None:
    file = folder / "one/spec.yaml"
    file.write_text(text)
    document = read_document(str(file))
    (archive,) = pack_code(document)
    assert [one.name for one in archive.files] == ["spec.yaml", "train.py"]
    assert document == {"code": archive.digest, "labels": {}}


def test_a_folder_of_an_option_is_relative_to_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    document = with_options({"code": DIGEST}, {}, ["code=one"])
    (archive,) = pack_code(document)
    assert document["code"] == archive.digest == code_folder(folder / "one").digest


def test_studies_name_folders_in_their_base_and_in_their_grid(folder: Path) -> None:
    file = folder / "study.yaml"
    file.write_text(f"base: {{code: one, labels: {{a: b}}}}\ngrid: {{code: [one, ./two, {DIGEST}], params.x: [1]}}")
    document = read_document(str(file))
    archives = pack_code(document)
    one, two = (code_folder(folder / name).digest for name in ("one", "two"))
    assert [archive.digest for archive in archives] == [one, two]
    base = {"code": one, "labels": {"a": "b"}}
    assert document == {"base": base, "grid": {"code": [one, two, DIGEST], "params.x": [1]}}


@pytest.mark.parametrize("document", [{"dataset": "digits"}, {"code": DIGEST}, {"code": 7}, {"base": 1, "grid": [2]}])
def test_documents_without_folders_stay_as_they_are(document: dict[str, Any]) -> None:
    before = dict(document)
    assert (pack_code(document), document) == ([], before)


COMMIT = {"git.commit": "1a2b", "git.dirty": "false"}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"code": DIGEST}, {"git.commit": "", "git.dirty": ""}),
        ({"code": DIGEST, "labels": {"git.commit": "9f"}}, {"git.commit": "9f", "git.dirty": ""}),
        ({"code": "1b" * 32}, None),
        ({"epochs": 3}, None),
    ],
)
def test_a_clone_with_other_code_has_not_the_commit_of_the_old_one(changes: dict[str, Any], labels: Any) -> None:
    clear_old_commit(changes, {"code": "1b" * 32, "labels": {**COMMIT, "team": "a"}})
    assert changes.get("labels") == labels


def test_what_cannot_be_sent_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsendableCode) as caught:
        pack_code({"grid": {"code": ["nowhere"]}})
    assert explain(caught.value) == (USAGE, ["nowhere is not a folder."])
    for number in range(7):
        (folder / f"one/gone-{number}").symlink_to("nowhere")
    document = {"code": str(folder / "one"), "labels": {**COMMIT, "team": "a"}}
    pack_code(document)
    assert document["labels"] == {"team": "a"}  # the folder is in no repository
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"left out: {folder}/one/gone-0 (a link that leads nowhere)"
    assert (len(lines), lines[-1]) == (6, "left out: 2 more")
