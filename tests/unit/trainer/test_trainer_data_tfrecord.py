"""TFRecord files of tf.train.Example, written by TensorFlow."""

import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets import open_dataset
from tests.pictures import plain
from tests.tfrecords import example, write
from tests.unit.trainer.reading import read
from trainer.data.formats import files_of
from trainer.data.interfaces import Host, Part
from trainer.data.opening import Dataset
from trainer.data.tfrecord.records import contents_of, masked_crc
from trainer.data.tfrecord.source import is_tfrecord
from trainer.errors import BadData


def picture(number: int) -> bytes:
    """A colour image whose pixels are its number."""
    return plain((number,) * 3, (6, 5))


def pictures(numbers: Iterator[int] | range, **more: Any) -> list[bytes]:
    """Examples as the models of TensorFlow write them. Class n begins at 1."""
    return [
        example(image__encoded=picture(number), image__class__label=1 + number % 3, image__format="png", **more)
        for number in numbers
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with `sets`: 40 images to train on in two files, 6 to test on."""
    write(tmp_path / "sets" / "train-00000-of-00002", pictures(range(25)))
    write(tmp_path / "sets" / "train-00001-of-00002", pictures(range(25, 40)))
    write(tmp_path / "sets" / "test-00000-of-00001", pictures(range(40, 46)))
    return tmp_path


def opened(source: str, root: Path, *, ranks: int = 1, **fields: Any) -> Dataset:
    return open_dataset({"source": source, **fields}, root, ranks=ranks)


def numbers_of(*parts: Part | None) -> list[tuple[int, int]]:
    """The first pixel and the label of each sample."""
    images, labels = read(*parts)
    return list(zip(images[:, 0, 0, 0].tolist(), labels.tolist(), strict=True))


@pytest.mark.parametrize(("ranks", "cache"), [(1, "none"), (3, "disk"), (3, "memory")])
def test_images_come_with_their_labels_from_all_files(root: Path, ranks: int, cache: str) -> None:
    dataset = opened("sets", root, ranks=ranks, cache=cache)
    facts = dataset.facts
    assert (facts.format, facts.shape, facts.dtype, facts.classes) == ("tfrecord", (5, 6, 3), "uint8", tuple("0123"))
    assert (facts.sizes.train, facts.sizes.validation, facts.sizes.test) == (36, 4, 6)
    assert sorted(numbers_of(dataset.train, dataset.validation)) == [(n, 1 + n % 3) for n in range(40)]
    assert numbers_of(dataset.test) == [(n, 1 + n % 3) for n in range(40, 46)]


def test_balanced_and_enlarged(root: Path) -> None:
    fields = {"balance": True, "augment": ["flip_vertical"], "augment_mode": "enlarge"}
    dataset = opened("sets", root, **fields)
    labels = [label for _, label in numbers_of(dataset.train)]
    assert len(set(np.bincount(labels)[1:])) == 1


def test_texts_are_classes_and_tfds_names_are_found(tmp_path: Path) -> None:
    shard = "flowers-{}.tfrecord-0000{}-of-00002"
    for part, count in (("train", 20), ("test", 4)):
        for number in range(2):
            examples = [
                example(image=plain(n, (6, 5)), label=("rose", "tulip")[n % 2]) for n in range(number, count, 2)
            ]
            write(tmp_path / "flowers" / "1.0.0" / shard.format(part, number), examples)
    (tmp_path / "flowers" / "1.0.0" / "features.json").write_text("{}")
    dataset = opened("flowers", tmp_path, image_size=[8, 8])
    assert (dataset.facts.classes, dataset.facts.shape) == (("rose", "tulip"), (8, 8, 1))
    assert dataset.facts.sizes.test == 4


def test_numbers_are_a_table_with_their_mean_and_deviation(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(5, 2, (60, 3))
    examples = [example(a=[float(x) for x in row[:2]], b=int(row[2] * 10), y=int(row[0] > 5)) for row in values]
    write(tmp_path / "table.tfrecords", examples)
    dataset = opened("table.tfrecords", tmp_path, label="y")
    facts = dataset.facts
    assert (facts.shape, facts.dtype) == ((3,), "float32")
    assert facts.normalization is not None
    assert facts.normalization.mean[:2] == pytest.approx(values[:, :2].mean(0), rel=1e-5)
    assert facts.normalization.deviation[:2] == pytest.approx(values[:, :2].std(0), rel=1e-5)
    rows, _ = read(dataset.train, dataset.validation)
    assert sorted(rows[:, 2]) == sorted(np.trunc(values[:, 2] * 10).astype(np.float32))


def test_raw_pixels_need_their_size(tmp_path: Path) -> None:
    pixels = np.arange(40 * 12, dtype=np.uint8).reshape(40, 12)
    examples = [example(image_raw=row.tobytes(), label=n % 2) for n, row in enumerate(pixels)]
    write(tmp_path / "raw.tfrec", examples)
    with pytest.raises(BadData, match=r"raw.tfrec: record 0: its image .* set dataset.image_size .* it has 12 bytes"):
        opened("raw.tfrec", tmp_path)
    dataset = opened("raw.tfrec", tmp_path, image_size=[2, 2])
    assert dataset.facts.shape == (2, 2, 3)
    assert read(dataset.train)[0][0].ravel().tolist() in pixels.tolist()


def test_damaged_images_are_left_out_and_named(tmp_path: Path) -> None:
    examples = pictures(range(200))
    examples[7] = example(image__encoded=picture(7)[:-20], image__class__label=1)
    write(tmp_path / "a.tfrecord", examples)
    dataset = opened("a.tfrecord", tmp_path)
    assert list(dataset.facts.damaged) == ["a.tfrecord: record 7"]
    seen = numbers_of(dataset.train, dataset.validation)
    assert sorted(number for number, _ in seen) == [n for n in range(200) if n != 7]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tfrecord", True), ("a.TFRecords", True), ("a.tfrec", True), ("m-train.tfrecord-00000-of-00001", True),
        ("train-00000-of-01024", True), ("part-00000-of-00002.parquet", False), ("a.tfrecord.gz", False),
        ("notes.txt", False), ("train", False),
    ],
)  # fmt: skip
def test_names_of_tfrecord_files(name: str, expected: bool) -> None:
    assert is_tfrecord(f"some/folder/{name}") is expected


# Hostile and damaged files.


def framed(content: bytes) -> bytes:
    """A record as TFRecord frames it."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc(length)) + content + struct.pack("<I", masked_crc(content))


def test_frames_are_those_of_tensorflow(tmp_path: Path) -> None:
    write(tmp_path / "a", [b"x" * 100, b"", b"yz"])
    assert (tmp_path / "a").read_bytes() == b"".join(map(framed, (b"x" * 100, b"", b"yz")))


def changed(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def giant(content: bytes) -> bytes:
    length = struct.pack("<Q", 2**62)
    return content + length + struct.pack("<I", masked_crc(length)) + b"x" * 100


def after(**features: Any) -> Callable[[bytes], bytes]:
    """Adds another example at the end of the file."""
    return lambda content: content + framed(example(**features))


def before(**features: Any) -> Callable[[bytes], bytes]:
    """Puts another example at the start of the file."""
    return lambda content: framed(example(**features)) + content


OTHER = "record 9 has other features than the first one"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda content: content[:-1], "ends inside the record that begins at byte"),
        (changed(-1), "is damaged: its checksum is wrong"),
        (changed(40), "the record at byte 0 is damaged: its checksum is wrong"),
        (changed(3), "does not begin as a TFRecord file does"),
        (lambda content: content + b"12345678abcd", "is damaged at byte"),
        (giant, "ends inside the record"),
        (lambda content: b"", "there is not a single record"),
        (lambda content: b"\x1f\x8b" + content, "is compressed: write it without compression"),
        (lambda content: framed(b"\xff" * 30), "holds no examples"),
        (lambda content: framed(b""), r"there is no feature 'label' \(dataset.label\); there are: none"),
        (lambda content: content + framed(b"\xff" * 30), OTHER),
        (after(label=1), OTHER),
        (after(image=picture(1), label=[1, 2]), rf"{OTHER}: not label \(1 integer\)"),
        (after(image=picture(1), label=-1), "the label -1 is out of range"),
        (after(image=picture(1), label=2**40), "the label 1099511627776 is out of"),
        (before(image=picture(1), label=0.5), r"not label \(1 float\)"),
        (before(one=b"a", two=b"b", label=1), "which feature is the image. There are one, two"),
        (before(label=1), "there is neither an image nor a feature of numbers"),
        (lambda content: framed(example(x=[1.0, float("inf")], label=1)), "record 0 holds NaN or infinity"),
    ],
)
def test_damaged_and_hostile_files_are_bad_data(
    tmp_path: Path, damage: Callable[[bytes], bytes], sentence: str
) -> None:
    write(tmp_path / "a.tfrecord", [example(image=picture(n), label=n % 2) for n in range(9)])
    (tmp_path / "a.tfrecord").write_bytes(damage((tmp_path / "a.tfrecord").read_bytes()))
    with pytest.raises(BadData, match=sentence):
        opened("a.tfrecord", tmp_path)


def test_a_file_that_changes_after_the_survey_is_noticed(root: Path) -> None:
    dataset = opened("sets", root)
    (root / "sets" / "README.md").write_text("x")
    found = files_of("sets", Host([str(root)], root, root, 1), expected_format="auto", field="source")
    assert found is not None  # the files of the fingerprint
    assert [name for name, _ in found[1]] == ["test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"]
    path = root / "sets" / "train-00000-of-00002"
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\0\0\0\0" + content[64:])
    with pytest.raises(BadData, match="record 0 is damaged: its checksum is wrong"):
        numbers_of(dataset.train)


@given(
    st.binary(max_size=200)
    | st.lists(st.binary(max_size=20), max_size=3).map(lambda records: b"".join(map(framed, records)))
)
@settings(max_examples=100)
def test_any_bytes_are_records_or_bad_data(content: bytes) -> None:
    try:
        records = list(contents_of(BytesIO(content), len(content), name="a"))
    except BadData:
        pass
    else:
        assert b"".join(map(framed, records)) == content
