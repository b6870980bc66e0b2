"""Where a script finds its data."""

from pathlib import Path
from typing import Any

import pytest

from jobs.model.spec import DatasetSpec
from worker.attempt.script_data import NoSuchData, ScriptData, script_data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for folder in ("chips/train", "chips/val", "flat", "other/train", "uploads/3/train"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "secret/train").mkdir(parents=True)
    return root


def found(root: Path, source: str, **fields: Any) -> ScriptData:
    return script_data(DatasetSpec(source=source, **fields), [str(root)], registered=None, uploads=None)


def test_parts_of_the_data_are_handed_over_each_and_data_without_parts_is_all_for_training(root: Path) -> None:
    parts = found(root, "chips")
    assert (parts.train, parts.validation) == (f"{root}/chips/train", f"{root}/chips/val")
    assert parts.readable[0] == f"{root}/chips"
    assert found(root, f"{root}/flat") == ScriptData(f"{root}/flat", None, [f"{root}/flat"])
    assert found(root, "s3://bucket/chips") == ScriptData("s3://bucket/chips", None, [])
    assert found(root, f"file://{root}/chips").train == f"{root}/chips/train"
    (root / "fashion-mnist").mkdir()
    assert found(root, "fashion-mnist").train == f"{root}/fashion-mnist"
    assert script_data(None, [str(root)]) == ScriptData()


def test_another_source_for_validation_gives_its_training_part(root: Path) -> None:
    data = found(root, "flat", validation="other")
    assert (data.train, data.validation) == (f"{root}/flat", f"{root}/other/train")
    assert f"{root}/other" in data.readable
    assert found(root, "chips", validation="other").validation == f"{root}/chips/val", "own parts come first"


@pytest.mark.parametrize("source", ["nothing", "../secret", "link"])
def test_what_is_missing_or_outside_the_data_roots_is_refused(root: Path, source: str) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    with pytest.raises(NoSuchData, match=r"dataset\.source: '.*' is not on this host"):
        found(root, source)


def test_a_part_that_is_a_link_out_of_the_data_roots_is_none(root: Path) -> None:
    (root / "flat/train").symlink_to(root.parent / "secret")
    assert found(root, "flat").train == f"{root}/flat"
    (root / "flat/train").unlink()
    (root / "flat/train").symlink_to(root / "other/train")
    linked = found(root, "flat")
    assert linked.train == f"{root}/other/train"
    assert linked.train in linked.readable


def test_an_uploaded_version_is_found_below_the_folder_of_datasets_and_no_other_is_readable(root: Path) -> None:
    uploads = str(root / "uploads")
    data = script_data(DatasetSpec(source="chips@3"), [], registered=f"{uploads}/3", uploads=uploads)
    assert (data.train, data.readable) == (f"{uploads}/3/train", [f"{uploads}/3", f"{uploads}/3/train"])
