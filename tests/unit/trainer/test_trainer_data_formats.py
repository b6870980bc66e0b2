"""How the format of a source is recognised, and the errors for a source that cannot be read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.datasets import one_of_each_format, open_dataset, spec_of
from trainer.data.interfaces import Host
from trainer.data.opening import open_source
from trainer.errors import BadData


@pytest.fixture(scope="module")
def kept_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with one of each format, for tests that only read it."""
    return one_of_each_format(tmp_path_factory.mktemp("data"))


@pytest.fixture
def root(kept_root: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(kept_root, tmp_path / "root"))


@pytest.mark.parametrize(
    ("source", "name", "shape"),
    [
        ("a.npz", "arrays", (8, 8, 1)),
        ("idx", "arrays", (8, 8, 1)),
        ("table.parquet", "parquet", (2,)),
        ("lake", "parquet", (2,)),
        ("images", "images", (8, 8, 1)),
        ("images/train", "images", (8, 8, 1)),
        ("digits", "arrays", (8, 8, 1)),
        ("synthetic:classes=2", "synthetic", (32, 32, 3)),
    ],
)
def test_each_format_is_recognised_from_its_source(
    kept_root: Path, tmp_path: Path, source: str, name: str, shape: tuple[int, ...]
) -> None:
    for asked in ("auto", name):
        facts = open_dataset({"source": source, "format": asked}, tmp_path, data_roots=[str(kept_root)]).facts
        assert (facts.format, facts.shape) == (name, shape)
    for other in {"arrays", "images", "parquet"} - {name}:
        with pytest.raises(BadData, match=f"dataset.format: {other} was given, but '{source}' is {name}"):
            open_dataset({"source": source, "format": other}, tmp_path, data_roots=[str(kept_root)])
    if name != "synthetic":
        with pytest.raises(BadData, match=r"dataset\.(source: '.*' is no synthetic data|format: synthetic was given)"):
            open_dataset({"source": source, "format": "synthetic"}, tmp_path, data_roots=[str(kept_root)])


def test_registered_name_takes_precedence_over_a_path(root: Path) -> None:
    for name in ("digits", "synthetic"):
        (root / "a.npz").with_name(name).mkdir()
        assert open_dataset(name, root).facts.sizes.train > 1000


def test_folder_of_two_formats_is_read_in_the_requested_format(root: Path) -> None:
    (root / "tables" / "idx").symlink_to(root / "idx")
    for path in (root / "idx").iterdir():
        (root / "tables" / path.name).symlink_to(path)
    formats = [
        open_dataset({"source": "tables", "format": asked}, root).facts.format
        for asked in ("auto", "parquet", "arrays")
    ]
    assert formats == ["parquet", "parquet", "arrays"]


def test_links_are_followed_only_below_the_data_roots(root: Path) -> None:
    data = root / "data"
    for folder, kept in (("near", data / "kept"), ("far", root / "kept")):
        (data / folder).mkdir(parents=True)
        kept.mkdir()
        for path in (root / "idx").iterdir():
            (kept / path.name).write_bytes(path.read_bytes())
            (data / folder / path.name).symlink_to(kept / path.name)
    assert open_dataset("near", root, data_roots=[str(data)]).facts.shape == (8, 8, 1)
    with pytest.raises(BadData, match="'far' is an empty folder"):
        open_dataset("far", root, data_roots=[str(data)])


def test_dataset_is_decoded_in_colour_when_one_part_is_in_colour(root: Path) -> None:
    for name in ("even", "odd"):
        (root / "images" / "test" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(root / "images" / "test" / name / "1.png")
    assert open_dataset("images", root).facts.shape == (8, 8, 3)


UNDERSTOOD = ": a folder with a sub-folder of images for each class, .parquet files, an .npz file, IDX files, the"


@pytest.mark.parametrize(
    ("files", "source", "sentence"),
    [
        ({}, "x", "'x' is an empty folder"),
        ({"x.csv": b"1,2"}, "x/x.csv", "'x/x.csv' is a file of no format that is known"),
        ({"a.jpg": b"x"}, "x/a.jpg", "'x/a.jpg' is one image"),
        ({"a.JPG": b"x"}, "x", "'x' is a folder of images without a sub-folder for each class"),
        ({"a.npz": b"x"}, "x", "'x' is a folder: name the .npz file in it, 'a.npz'"),
        (
            {"a/.keep": b"", "b/.keep": b""},
            "x",
            "'x' is a folder whose sub-folders hold neither images nor .parquet files",
        ),
        ({"notes.txt": b""}, "x", "'x' is a folder of no format that is known"),
        ({".hidden": b""}, "x", "'x' is an empty folder"),
        ({"a.npz/.": b""}, "x/a.npz", "'x/a.npz' is an empty folder"),
        (
            {"train-images-idx3-ubyte/.": b""},
            "x/train-images-idx3-ubyte",
            "'x/train-images-idx3-ubyte' is an empty folder",
        ),
    ],
)
def test_source_of_unknown_format_is_bad_data(
    tmp_path: Path, files: dict[str, bytes], source: str, sentence: str
) -> None:
    (tmp_path / "x").mkdir()
    for name, content in files.items():
        folder, _, file = name.rpartition("/")
        (tmp_path / "x" / folder).mkdir(exist_ok=True)
        if file != ".":
            (tmp_path / "x" / name).write_bytes(content)
    for field in ("source", "validation"):
        with pytest.raises(BadData) as refused:
            open_dataset({"source": "digits", field: source}, tmp_path)
        assert str(refused.value).startswith(f"dataset.{field}: {sentence}{UNDERSTOOD}")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("source", "beside", "pipe"),
    [
        ("a.npz", "", "a.npz"),
        ("b.parquet", "", "b.parquet"),
        ("idx", "", "idx/train-images-idx3-ubyte"),
        ("tables", "a.parquet", "tables/deep/er/b.pq"),
        ("tables", "a.parquet", "tables/0.parquet"),
        ("tables", "", "tables/b.parquet"),
        ("images", "even/a.png", "images/odd/deep/b.jpg"),
    ],
)
@pytest.mark.parametrize("cache", ["none", "disk"])
def test_a_named_pipe_in_the_place_of_a_data_file_is_named_and_not_waited_for(
    tmp_path: Path, source: str, beside: str, pipe: str, cache: str
) -> None:
    (tmp_path / pipe).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / pipe)
    if beside.endswith(".parquet"):
        pq.write_table(pa.table({"label": [0, 1], "x": [1.0, 2.0]}), tmp_path / source / beside)
    elif beside:
        (tmp_path / source / beside).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source / beside).write_bytes(b"")
    with pytest.raises(BadData) as refused:
        open_dataset({"source": source, "cache": cache}, tmp_path)
    assert str(refused.value) == f"'{pipe}' is a named pipe, not a file: remove it"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("cache", ["none", "disk"])
def test_a_file_that_becomes_a_named_pipe_is_not_waited_for(root: Path, cache: str) -> None:
    host = Host([str(root)], cache_dir=root / "cache", scratch_dir=root, threads=1)
    tables, images = (
        open_source(spec_of({"source": name, "cache": cache}).dataset, seed=0, host=host)
        for name in ("tables", "images")
    )
    table_surveys, image_surveys = ([source.survey(rank=0, ranks=1)] for source in (tables, images))
    table = tables.to_dataset(table_surveys)
    opened_images = images.to_dataset(image_surveys)
    for path in (*(root / "tables").iterdir(), *(root / "images").rglob("*.png")):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(BadData, match=r"part-0\.parquet cannot be read: it is a named pipe, not a file"):
        tables.survey(rank=0, ranks=1)
    for dataset in (table, opened_images):
        with pytest.raises(BadData, match="named pipe"):
            list(dataset.evaluation_batches(dataset.train, rank=0, ranks=1, per_rank=8))
    damaged = images.survey(rank=0, ranks=1)["train"]["damaged"]
    assert set(damaged.values()) == {"is no file"}


@pytest.fixture
def anybody(root: Path) -> Iterator[Path]:
    """A data root, and the rights of a user who owns nothing in it."""
    if os.geteuid() != 0:
        yield root
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        os.rename(root, f"{folder}/root")
        os.seteuid(65534)
        try:
            yield Path(folder, "root")
        finally:
            os.seteuid(0)
            os.rename(f"{folder}/root", root)


@pytest.mark.parametrize(
    ("closed", "source", "sentence"),
    [
        ("a.npz", "a.npz", "cannot read 'a.npz': Permission denied"),
        ("idx/train-images-idx3-ubyte", "idx", "cannot read train-images-idx3-ubyte in 'idx': Permission denied"),
        ("tables", "tables", "cannot read 'tables': Permission denied"),
        ("images/train/even", "images", "cannot read even in 'images': Permission denied"),
    ],
)
def test_sources_without_read_permission_are_bad_data(
    root: Path, closed: str, source: str, sentence: str, request: Any
) -> None:
    root.chmod(0o755)
    (root / closed).chmod(0)
    data_root = request.getfixturevalue("anybody")
    with pytest.raises(BadData, match=sentence):
        open_dataset(source, Path("/tmp"), data_roots=[str(data_root)])


class Refusing(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A store that raises errors of its own kind."""

    protocol = "refusing"

    def exists(self, path: str, **kwargs: Any) -> bool:
        return True

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        raise LookupError("token expired")


def test_errors_of_a_store_name_the_source(tmp_path: Path) -> None:
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    with pytest.raises(BadData, match=r"cannot read 'refusing://bucket/a\.npz': token expired"):
        open_dataset("refusing://bucket/a.npz", tmp_path, data_roots=["refusing://bucket"])
