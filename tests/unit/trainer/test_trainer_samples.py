"""A few small images of a dataset: which, how small, and what becomes of them as PNG."""

import io
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jobs.data.samples import Pixels
from jobs.model.plan import DatasetSizes
from trainer import inspection
from trainer.data.interfaces import Batch, Facts
from trainer.data.opening import Dataset
from trainer.samples import LARGEST_PX, MOST, MOST_OF_CLASS, are_images, chosen, small

FACTS = Facts(
    format="arrays", shape=(4, 4, 3), dtype="uint8", value_range=(0.0, 255.0), normalization=None,
    classes=tuple(f"class {number}" for number in range(20)), sizes=DatasetSizes(train=100, validation=0, test=0),
    damaged={},
)  # fmt: skip


def batches(labels: Any, size: int = 10) -> Iterator[Batch]:
    for start in range(0, len(labels), size):
        some = np.asarray(labels[start : start + size])
        yield Batch(np.zeros((len(some), *FACTS.shape), np.uint8), some)


def test_there_are_a_few_of_each_class_and_not_too_many() -> None:
    names = [sample["label"] for sample in chosen(batches([0] * 50 + [1] * 2 + [2] * 50), FACTS)]
    assert names == ["class 0"] * MOST_OF_CLASS + ["class 1"] * 2 + ["class 2"] * MOST_OF_CLASS
    assert len(list(chosen(batches(list(range(20)) * 5), FACTS))) == MOST


def test_labels_are_said_by_the_task_and_only_images_are_shown() -> None:
    several = replace(FACTS, task="multilabel", classes=("cat", "dog", "eel"))
    assert [one["label"] for one in chosen(batches([[1, 0, 1], [0, 0, 0]]), several)] == ["cat, eel", ""]
    numbers = replace(FACTS, task="regression", classes=())
    assert [one["label"] for one in chosen(batches([[0.5, 1e-9]]), numbers)] == ["0.5, 1e-09"]
    assert are_images(FACTS)
    assert are_images(replace(FACTS, shape=(4, 4, 1)))
    for changes in ({"shape": (4, 4, 2)}, {"shape": (4,)}, {"value_range": None}):
        assert not are_images(replace(FACTS, **changes))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((8, 8, 1), (8, 8, 1)), ((64, 64, 3), (64, 64, 3)), ((65, 30, 3), (32, 15, 3)), ((1000, 7, 1), (62, 1, 1))],
)
def test_an_image_is_small(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    pixels = small(np.full(shape, 200, np.uint8), (0.0, 255.0))
    assert pixels.shape == expected
    assert max(pixels.shape[:2]) <= LARGEST_PX
    assert np.all(pixels == 200)


def test_a_pixel_is_the_mean_of_its_block_in_the_range_of_the_data() -> None:
    image = np.zeros((128, 128, 1), np.float32)
    image[::2] = 1.0
    image[0, 0] = np.nan
    pixels = small(image, (0.0, 1.0))
    assert (pixels[1, 1, 0], pixels[0, 0, 0]) == (128, 0)


SAID = {"label": "cat", "height": 5, "width": 7}


@pytest.mark.parametrize("channels", [1, 3])
def test_the_pixels_become_a_png(channels: int) -> None:
    values = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    png = Pixels(**SAID, channels=channels, pixels=b64encode(values.tobytes()).decode()).png()
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))).reshape(5, 7, channels), values)


@pytest.mark.parametrize(
    "changes",
    [{"height": 6}, {"channels": 2}, {"channels": 3}, {"pixels": "AAAA"}, {"pixels": "<"}, {"width": 65}, {"more": 1}],
)
def test_pixels_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    fits = SAID | {"channels": 1, "pixels": b64encode(bytes(35)).decode()}
    with pytest.raises(ValueError, match=r"fit the sides|base64|64|Extra|padding"):
        Pixels(**(fits | changes)).png()


def test_data_is_as_good_if_no_samples_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(dataset: Dataset) -> list[Any]:
        raise ValueError("damaged")

    np.savez(tmp_path / "a.npz", x=np.zeros((20, 8, 8), np.uint8), y=np.arange(20) % 2)
    roots = {"data_roots": [str(tmp_path)], "scratch_dir": str(tmp_path), "threads": 1}
    request = {"dataset": {"source": "a.npz"}, **roots}
    assert len(inspection.answer(request)["samples"]) == 2 * MOST_OF_CLASS
    monkeypatch.setattr(inspection, "samples_of", unreadable)
    answer = inspection.answer(request)
    assert (answer["facts"]["samples"], answer["samples"]) == (20, [])
