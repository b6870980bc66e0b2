"""What `hora doctor` says of the data roots; the rest of it needs a stack."""

from pathlib import Path

import pytest

from hora.doctor import data_roots


def test_data_roots_that_are_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:s3://bucket/sets")
    finding = data_roots()
    assert (finding.level, finding.found) == ("ok", f"{tmp_path}, s3://bucket/sets")


def test_a_data_root_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{tmp_path}:{tmp_path / 'gone'}:{tmp_path / 'file'}")
    finding = data_roots()
    assert finding.level == "fail"
    assert finding.found == f"not there: {tmp_path / 'gone'}, {tmp_path / 'file'}"
    assert "HORA_DATA_ROOTS" in finding.advice


def test_without_data_roots_there_are_registered_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORA_DATA_ROOTS", raising=False)
    finding = data_roots()
    assert (finding.level, "registered" in finding.found) == ("ok", True)


def test_a_wrong_setting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_MODELS", "acme.nets")
    finding = data_roots()
    assert finding.level == "fail"
    assert "module:function" in finding.found
