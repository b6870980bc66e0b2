"""What the operator sets, as the processes read it."""

import pytest
from pydantic import ValidationError

from jobs.settings import Settings


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("", []),
        ("/data", ["/data"]),
        ("/data:/mnt/sets/", ["/data", "/mnt/sets"]),
        ("/data:s3://bucket/sets", ["/data", "s3://bucket/sets"]),
        ("s3://bucket/sets:/data:memory://x", ["s3://bucket/sets", "/data", "memory://x"]),
        ("https://host:8080/sets:/data", ["https://host:8080/sets", "/data"]),
        (":/data::", ["/data"]),
    ],
)
def test_data_roots_are_folders_and_urls(text: str, roots: list[str]) -> None:
    assert Settings(data_roots=text).data_root_list == roots


def test_a_relative_data_root_is_the_same_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert Settings(data_roots="share").data_root_list == ["/usr/share"]


def test_models_are_modules_with_functions() -> None:
    assert Settings(models="acme.nets:wide, acme.nets:deep,").model_list == ["acme.nets:wide", "acme.nets:deep"]
    assert Settings().model_list == []
    for wrong in ("acme.nets", "acme.nets:", "acme-nets:wide", "acme.nets:wide()", "a:b;c:d"):
        with pytest.raises(ValidationError, match="write each model as module:function"):
            Settings(models=wrong)
