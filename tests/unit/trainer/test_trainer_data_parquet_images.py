"""Images in a column of Parquet files: encoded or as raw pixels, whole and damaged."""

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tests.pictures import UNREADABLE, encoded, photo, plain
from tests.tables import collections, part, surveyed, write
from trainer.data.interfaces import SampleSchedule
from trainer.errors import BadData

SIZE = (6, 8)


def pixels(number: int, channel: int = 3) -> NDArray[np.uint8]:
    """An image filled with its number; PNG does not change it."""
    return np.full((*SIZE, channel), number, np.uint8)


def png(number: int) -> bytes:
    return plain((number,) * 3, SIZE[::-1])


def in_struct(contents: list[bytes]) -> pa.Array:
    """The images as datasets of Hugging Face store them."""
    return pa.array([{"bytes": content, "path": f"{number}.png"} for number, content in enumerate(contents)])


COLUMNS: dict[str, Callable[[list[bytes]], pa.Array]] = {
    "binary": lambda contents: pa.array(contents, pa.binary()),
    "large_binary": lambda contents: pa.array(contents, pa.large_binary()),
    "struct": in_struct,
}


def table(contents: list[bytes], *, column: str = "binary", **more: Any) -> pa.Table:
    """Images and their labels, two classes in turn; `caption` is neither number nor image."""
    labels = pa.array(["cat", "dog"] * (len(contents) // 2)).dictionary_encode()
    return pa.table({"image": COLUMNS[column](contents), "caption": ["a"] * len(contents), "label": labels} | more)


def trained(root: Path, source: str, samples: int, per_rank: int, **fields: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The pixels and labels of an epoch."""
    opened = part(source, root, **fields)
    with closing(
        opened.train(SampleSchedule(samples, 0, 1, per_rank, samples // per_rank, 1), epoch=1, first=0)
    ) as batches:
        taken = list(islice(batches, samples // per_rank))
    return np.concatenate([batch.features for batch in taken]), np.concatenate([batch.labels for batch in taken])


@pytest.mark.parametrize("column", COLUMNS)
def test_encoded_images_are_decoded_in_every_kind_of_column(tmp_path: Path, column: str) -> None:
    write(tmp_path / "a.parquet", table([png(number) for number in range(40)], column=column), [7, 30, 3])
    images, labels = trained(tmp_path, "a.parquet", 40, 8)
    assert images.shape == (40, *SIZE, 3)
    assert images.dtype == np.uint8
    assert sorted(images[:, 0, 0, 0]) == list(range(40))
    assert (images == images[:, :1, :1, :1]).all()
    assert (images[:, 0, 0, 0] % 2 == labels).all()


def test_images_are_resized_to_image_size(tmp_path: Path) -> None:
    contents = [encoded(photo(20 + number, 30, seed=number), "JPEG") for number in range(8)]
    write(tmp_path / "a.parquet", table(contents), [8])
    images, _ = trained(tmp_path, "a.parquet", 8, 4, image_size=(10, 12))
    assert images.shape == (8, 10, 12, 3)
    with pytest.raises(BadData, match=r"the images of a.parquet differ in size \(as 20x30 and 21x30"):
        part("a.parquet", tmp_path)


@pytest.mark.parametrize(
    ("contents", "fields", "sentence"),
    [
        (
            [png(1)] * 39 + [encoded(photo(20, 30), "PNG")],
            {},
            r"row group 0 of a.parquet: row 39 has 20x30 pixels, others 6x8: set dataset.im",
        ),
        (
            [pixels(1).tobytes()] * 39 + [b"1"],
            {"image_size": SIZE},
            r"row group 0 of a.parquet: a row of the column 'image' has another length than",
        ),
        (
            [b"\xff\xd8\xff" if number in {30, 50} else png(number) for number in range(100)],
            {},
            r"2 of 100 images are damaged, more than 1 %: .*a.parquet: row [35]0 is ",
        ),
    ],
    ids=["another size", "another length", "too many damaged"],
)
def test_images_that_cannot_be_trained_on_are_bad_data(
    tmp_path: Path, contents: list[bytes], fields: dict[str, Any], sentence: str
) -> None:
    write(tmp_path / "a.parquet", table(contents), [len(contents)])
    with pytest.raises(BadData, match=sentence):
        trained(tmp_path, "a.parquet", len(contents), 8, **fields)


def test_damaged_images_are_replaced_in_training_and_do_not_count_in_evaluation(tmp_path: Path) -> None:
    damaged = list(UNREADABLE.values())[::3]
    rows = 120 * len(damaged)
    contents = ([png(number) for number in range(100)] * 20)[:rows]
    contents[119::120] = damaged
    write(tmp_path / "a.parquet", table(contents), [60, 500, rows])
    images, labels = trained(tmp_path, "a.parquet", rows, 40, image_size=SIZE)
    assert (images[:, 0, 0, 0] % 2 == labels).all()

    opened = part("a.parquet", tmp_path, image_size=SIZE)
    batches = [batch for rank in (0, 1) for batch in opened.evaluate(rank=rank, ranks=2, per_rank=500)]
    assert {batch.features.shape for batch in batches} == {(500, *SIZE, 3)}
    counted = np.concatenate([batch.features[batch.weights > 0, 0, 0, 0] for batch in batches])
    assert sorted(counted) == sorted(number % 100 for number in range(rows) if number % 120 != 119)
    assert opened.damage().keys() == {f"a.parquet: row {number}" for number in range(119, rows, 120)}
    assert sum(len(batch.labels) for batch in opened.rows(0, rows)) == rows


@pytest.mark.parametrize("channel", [1, 3])
@pytest.mark.parametrize("type_", ["binary", "fixed", "list"])
def test_raw_pixels_become_images_only_when_image_size_fits(tmp_path: Path, channel: int, type_: str) -> None:
    contents: list[Any] = [pixels(number, channel).tobytes() for number in range(20)]
    length = len(contents[0])
    types = {"binary": pa.binary(), "fixed": pa.binary(length), "list": pa.list_(pa.uint8())}
    column = pa.array(map(list, contents) if type_ == "list" else contents, types[type_])
    write(tmp_path / "a.parquet", pa.table({"pixels": column, "label": [0, 1] * 10}), [20])
    images, labels = trained(tmp_path, "a.parquet", 20, 5, image_size=SIZE)
    assert images.shape == (20, *SIZE, channel)
    assert (images[:, 0, 0, 0] % 2 == labels).all()
    fitting = "[6, 8] with 1 channel or [4, 4] with 3 channels" if channel == 1 else "[12, 12] with 1 channel or [6, 8]"
    of_size = f"it has {length} bytes, and 6x9 is 54 bytes with 1 channel, or 162 with 3; {fitting}"
    cases = {(6, 9): f"correct dataset.image_size, which must be their height and width: {of_size}"}
    if type_ != "list":
        cases[None] = f"set dataset.image_size to their height and width: it has {length} bytes; {fitting}"
    for size, advice in cases.items():
        with pytest.raises(BadData) as refused:
            part("a.parquet", tmp_path, **({"image_size": size} if size else {}))
        assert "first value of the column 'pixels' is not a JPEG, PNG" in str(refused.value)
        assert f"if it is raw pixels, {advice}" in str(refused.value)


def test_lists_of_bytes_without_an_image_size_are_rows_of_a_table(tmp_path: Path) -> None:
    rows = [[number, 255, 7] for number in range(20)]
    column = pa.array(rows, pa.list_(pa.uint8()))
    write(tmp_path / "a.parquet", pa.table({"x": column, "label": [0, 1] * 10}), [7, 13])
    features, labels = trained(tmp_path, "a.parquet", 20, 5)
    assert sorted(features.tolist()) == rows
    assert (features[:, 0] % 2 == labels).all()
    uneven = pa.table({"x": pa.array([[1], [1, 2]] * 10, pa.list_(pa.uint8())), "label": [0, 1] * 10})
    write(tmp_path / "b.parquet", uneven, [20])
    with pytest.raises(BadData, match="they have 1 to 2 bytes, and raw pixels have as many in each sample"):
        part("b.parquet", tmp_path)


def test_column_named_image_is_chosen_among_several(tmp_path: Path) -> None:
    contents = [png(number) for number in range(8)]
    write(tmp_path / "a.parquet", table(contents, thumbnail=pa.array(contents)), [8])
    assert len(trained(tmp_path, "a.parquet", 8, 4)[0]) == 8
    both = pa.table({"left": contents, "right": contents, "label": [0, 1] * 4})
    write(tmp_path / "b.parquet", both, [8])
    with pytest.raises(BadData, match=r"b.parquet: several columns may hold the image: left, right: name one of them"):
        collections("b.parquet", tmp_path)


def test_images_without_content_are_bad_data(tmp_path: Path) -> None:
    column = pa.array([{"bytes": None, "path": "1.png"}] * 4, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    write(tmp_path / "a.parquet", pa.table({"image": column, "label": [0, 1] * 2}), [4])
    with pytest.raises(BadData, match=r"row group 0 of a.parquet: the column 'image' has empty values"):
        surveyed(collections("a.parquet", tmp_path)["train"])
