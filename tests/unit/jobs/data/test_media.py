"""Which files of a job are media, and what their paths say."""

from datetime import UTC, datetime

import pytest

from jobs.data import media as module
from jobs.data.artifact_files import Artifact
from jobs.data.media import media_among


def listed(*paths: str) -> list[tuple[str, str, list[tuple[int | None, str, str | None]]]]:
    """The answer for files with these paths, each newer than the one before."""
    files = [Artifact(path, 1, datetime.fromtimestamp(second, UTC), f'"{second}"') for second, path in enumerate(paths)]
    views = [media.view(paths) for media in sorted(media_among(files), key=lambda media: media.key)]
    return [
        (view.name, view.kind, [(step.step, step.path, step.caption_path) for step in view.steps]) for view in views
    ]


def test_a_path_says_name_kind_and_step() -> None:
    assert listed(
        "media/w/run.histogram.json", "media/w/0000000010.histogram.json", "media/w/2.histogram.json",
        "media/val/m/0000000001.matrix.json", "media/w/0000000002.png", "media/w/0000000002.txt",
        "media/t/0000000001.table.json", "media/c/run.curve.json", "media/a/0000000001.wav",
    ) == [
        ("a", "audio", [(1, "media/a/0000000001.wav", None)]),
        ("c", "curve", [(None, "media/c/run.curve.json", None)]),
        ("t", "table", [(1, "media/t/0000000001.table.json", None)]),
        ("val/m", "confusion_matrix", [(1, "media/val/m/0000000001.matrix.json", None)]),
        ("w", "histogram", [
            (2, "media/w/2.histogram.json", None), (10, "media/w/0000000010.histogram.json", None),
            (None, "media/w/run.histogram.json", None),
        ]),
        ("w", "image", [(2, "media/w/0000000002.png", "media/w/0000000002.txt")]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path", ["media/1.png", "a/b/1.png", "media/a/1.html", "media/a/1.svg", "media/a/x.png", "media/a/1.json",
             "media/a/12345678901.png", "media/a/1.txt", "media/a/-1.png", "media/a/\u0661.png"]
)  # fmt: skip
def test_other_files_are_none(path: str) -> None:
    assert listed(path) == []


def test_of_one_step_the_newer_file_counts_and_of_many_steps_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 2)
    [(_, _, steps)] = listed("media/a/2.png", "media/a/3.png", "media/a/2.jpg", "media/a/1.png")
    assert [path for _, path, _ in steps] == ["media/a/2.jpg", "media/a/3.png"]
