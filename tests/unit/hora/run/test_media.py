"""What a script keeps by step: pictures, sounds, histograms, tables, matrices and curves, and their limits."""

import io
import json
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hora.run import figures
from hora.run.media import Media

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def media(tmp_path: Path) -> Media:
    return Media(lambda: tmp_path, 0)


def kept(folder: Path) -> list[str]:
    """The paths of all files, hidden ones too."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def content(folder: Path, path: str) -> Any:
    return json.loads((folder / "media" / path).read_bytes())


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (3, 5, 3), (3, 5, 4)])
def test_an_array_becomes_a_png_with_the_same_pixels(media: Media, tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    media.image("a", pixels, step=7)
    media.image("a", pixels / 255, step=8)
    for step in (7, 8):
        with Image.open(tmp_path / f"media/a/000000000{step}.png") as picture:
            assert (np.asarray(picture) == pixels.reshape(np.asarray(picture).shape)).all()
    assert figures._pixels(np.array([[-1.0, 0.5, 2.0, np.nan]])).ravel().tolist() == [0, 128, 255, 0]
    assert figures._pixels(np.array([[True, False]])).ravel().tolist() == [255, 0]


def test_a_step_that_comes_again_replaces_its_file_and_its_caption(media: Media, tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(b"\xff\xd8\xff\xe0 a jpeg")
    media.image("val/samples", np.zeros((2, 2)), step=3, caption="the old one")
    assert kept(tmp_path / "media") == ["val/samples/0000000003.png", "val/samples/0000000003.txt"]
    again = Media(lambda: tmp_path, 0)  # a later attempt
    again.image("val/samples", tmp_path / "photo", step=3)
    again.image("val/samples", np.zeros((2, 2)), caption="\ud83d, cut")  # half a character
    assert kept(tmp_path / "media") == ["val/samples/0000000003.jpg", "val/samples/run.png", "val/samples/run.txt"]
    assert (tmp_path / "media/val/samples/run.txt").read_text() == "?, cut"
    (tmp_path / "a.png").write_bytes(b"<svg onload='alert()'>")
    with pytest.raises(ValueError, match="PNG, JPEG or WebP"):
        media.image("a", tmp_path / "a.png")
    with pytest.raises(FileNotFoundError):
        media.image("a", tmp_path / "b.png")


def test_a_sound_of_samples_can_be_played(media: Media, tmp_path: Path) -> None:
    media.audio("tone", np.array([[0.0, 1.0], [-1.0, 2.0]]), rate=8000, step=1)
    with wave.open(io.BytesIO((tmp_path / "media/tone/0000000001.wav").read_bytes())) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (8000, 2, 2)
        assert np.frombuffer(sound.readframes(9), "<i2").tolist() == [0, 32767, -32767, 32767]


def test_a_histogram_counts_what_is_finite(media: Media, tmp_path: Path) -> None:
    media.histogram("w", [[0.0, 1.0, np.nan], [1.5, 2.0, np.inf]], step=1, bins=2)
    assert content(tmp_path, "w/0000000001.histogram.json") == {"counts": [1, 3], "edges": [0.0, 1.0, 2.0]}
    media.histogram("w", [1e6, 1e6 + 1e-9], step=2)  # NumPy refuses to divide this range
    assert sum(content(tmp_path, "w/0000000002.histogram.json")["counts"]) == 2


def test_a_table_has_what_json_can_hold(media: Media, tmp_path: Path) -> None:
    row = [np.float32(0.5), np.int64(3), float("nan"), None, True, Path("a"), "x" * 2000]
    media.table("t", list("abcdefg"), [row], step=0)
    [cells] = content(tmp_path, "t/0000000000.table.json")["rows"]
    assert cells == [0.5, 3, None, None, True, "a", "x" * 999 + "…"]


def test_a_confusion_matrix_has_the_truth_in_its_rows(media: Media, tmp_path: Path) -> None:
    media.confusion_matrix("m", [0, 0, 2], [0, 1, 2], labels=["cat", "dog", "emu"], step=1)
    counts = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert content(tmp_path, "m/0000000001.matrix.json") == {"labels": ["cat", "dog", "emu"], "counts": counts}
    scores = [[0.9, 0.1, 0], [0.2, 0.8, 0], [0, 0, 1]]
    media.confusion_matrix("m", np.eye(3)[[0, 0, 2]], scores, labels=["cat", "dog", "emu"], step=2)
    assert content(tmp_path, "m/0000000002.matrix.json")["counts"] == counts
    media.confusion_matrix("m", ["b", "a"], ["b", "b"])
    assert content(tmp_path, "m/run.matrix.json") == {"labels": ["a", "b"], "counts": [[0, 1], [0, 1]]}


def test_roc_and_pr_are_those_of_their_definitions(media: Media, tmp_path: Path) -> None:
    truth, scores = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]
    media.roc("roc", truth, scores, step=1)
    media.pr("pr", truth, scores, step=1)
    [roc] = content(tmp_path, "roc/0000000001.curve.json")["lines"]
    [pr] = content(tmp_path, "pr/0000000001.curve.json")["lines"]
    assert roc == {"name": "AUC 0.750", "x": [0, 0, 0.5, 0.5, 1], "y": [0, 0.5, 0.5, 1, 1]}
    assert pr["name"] == "AP 0.833"  # 1/2 * 1 + 1/2 * 2/3
    assert pr["x"] == [0, 0.5, 0.5, 1, 1]
    assert pr["y"] == pytest.approx([1, 1, 0.5, 2 / 3, 0.5])
    media.roc("classes", [0, 1, 1], np.eye(3)[[0, 1, 1]], labels=["cat", "dog", "emu"])
    lines = content(tmp_path, "classes/run.curve.json")["lines"]
    assert [line["name"] for line in lines] == ["cat, AUC 1.000", "dog, AUC 1.000"]  # there is no emu
    media.roc("tied", truth, [0.5] * 4)  # one threshold has all of them
    assert content(tmp_path, "tied/run.curve.json")["lines"] == [{"name": "AUC 0.500", "x": [0, 1], "y": [0, 1]}]


def test_curves_are_sorted_and_long_ones_thinned(media: Media, tmp_path: Path) -> None:
    media.curve("c", [3, 1, 2], {"a": [30, 10, np.nan], "b": [3, 1, 2]}, x_name="k")
    curve = content(tmp_path, "c/run.curve.json")
    assert (curve["x_name"], [line["y"] for line in curve["lines"]]) == ("k", [[10, None, 30], [1, 2, 3]])
    media.curve("long", range(100_000), range(100_000))
    xs = content(tmp_path, "long/run.curve.json")["lines"][0]["x"]
    assert (len(xs), xs[0], xs[-1]) == (2000, 0, 99_999)


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/..", ".a", "a/.b", "a b", "a:b", "ä", "a" * 65])
def test_a_name_cannot_lead_elsewhere(media: Media, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        media.table(name, ["a"], [])
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "arguments", "why"),
    [
        ("image", (np.zeros((2, 2, 2)),), ""), ("image", (np.zeros((2, 2), int),), ""), ("image", ([],), ""),
        ("image", (np.zeros((2, 2)), None, 3), "caption must be a text, not 3"),
        ("histogram", ([1.0], None, 0), ""), ("histogram", ([10**400],), "values must be numbers: int too large"),
        ("histogram", (["a"],), "values must be numbers: could not convert"),
        ("table", (["a", "a"], []), ""), ("table", (["a"], [[1, 2]]), ""), ("table", (["a"], [], -1), ""),
        ("table", (["a"], [], 1.5), ""), ("confusion_matrix", ([0, 1], [0.2, 0.9]), ""),
        ("confusion_matrix", ([0, 1], [0]), ""), ("confusion_matrix", ([0, 3], [0, 1], ["a", "b"]), ""),
        ("confusion_matrix", (["c"], ["a"], ["a"]), ""), ("curve", ([1, 2], [1]), ""),
        ("curve", ([1], {"loss": ["a"]}), "loss must be numbers"), ("curve", (["a"], [1]), "x must be numbers"),
        ("roc", ([0, 2], [0.1, 0.2]), ""), ("roc", ([0, 1], [[0.1, 0.9]]), ""),
        ("roc", ([0, 1], ["a", "b"]), "scores must be numbers"), ("audio", ([0.5],), ""),
        ("audio", ([[0.5] * 8] * 2, 2**31 - 1), "from 1 to 1000000"),
        ("audio", (["a"], 8000), "samples must be numbers"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    media: Media, tmp_path: Path, call: str, arguments: tuple[Any, ...], why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why or None):
        getattr(media, call)("a", *arguments)
    assert kept(tmp_path) == []


def test_limits_warn_once_and_end_nothing(
    media: Media, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hora.run.media.MOST_OF_NAME", 2)
    monkeypatch.setattr("hora.run.media.MOST_OF_JOB", 3)
    for name in ("a", "b"):
        for step in (1, 2, 3, 4):
            media.table(name, ["n"], [[step]], step=step)
    assert kept(tmp_path / "media") == [
        "a/0000000001.table.json", "a/0000000002.table.json", "b/0000000001.table.json"
    ]  # fmt: skip
    media.table("a", ["n"], [[5]], step=2)  # a step that is there already
    assert content(tmp_path, "a/0000000002.table.json")["rows"] == [[5]]
    monkeypatch.setattr("hora.run.media.MOST_BYTES", 100)
    media.histogram("c", [np.nan])
    media.roc("c", [1, 1], [0.2, 0.3])
    media.curve("c", [1, 2], {})
    media.table("c", ["n"], [[1]] * 10_001)
    Media(lambda: tmp_path / "other", 1).table("a", ["n"], [[1]], step=1)  # only rank 0 keeps something
    assert not (tmp_path / "other").exists()
    (tmp_path / "no folder").touch()
    Media(lambda: tmp_path / "no folder", 0).table("d", ["n"], [])
    *warnings, not_written = capsys.readouterr().err.splitlines()
    assert not_written.startswith("warning: d is left out: ")
    assert warnings == [
        "warning: a is left out: the name has 2 media already",
        "warning: b is left out: the job has 3 media already",
        "warning: c is left out: it has no finite values",
        "warning: c is left out: it needs samples of both classes",
        "warning: c is left out: it has no lines",
        "warning: of the 10001 rows of c the first 10000 are kept",
        "warning: c is left out: it has 40026 bytes, and 100 are the most",
    ]


def test_a_script_without_numpy_keeps_tables_and_files(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(PNG)
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "from hora import run\nrun.table('t', ['a'], [[1]], step=1)\nrun.image('p', 'p', step=1)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)
    assert kept(tmp_path / "artifacts") == ["media/p/0000000001.png", "media/t/0000000001.table.json"]
