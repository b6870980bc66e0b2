"""How the format of a source is recognised, and the errors for a source that cannot be read."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from PIL import Image

from tests.datasets import one_of_each_format, open_dataset
from trainer.errors import BadData


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with one of each format."""
    return one_of_each_format(tmp_path)


@pytest.mark.parametrize(
    ("source", "name", "shape"),
    [
        ("a.npz", "arrays", (8, 8, 1)),
        ("idx", "arrays", (8, 8, 1)),
        ("idx/train-images-idx3-ubyte", "arrays", (8, 8, 1)),
        ("table.parquet", "parquet", (2,)),
        ("tables", "parquet", (2,)),
        ("lake", "parquet", (2,)),
        ("images", "images", (8, 8, 1)),
        ("images/train", "images", (8, 8, 1)),
        ("digits", "arrays", (8, 8, 1)),
        ("synthetic", "synthetic", (32, 32, 3)),
        ("synthetic:classes=2", "synthetic", (32, 32, 3)),
    ],
)
@pytest.mark.parametrize("asked", [False, True])
def test_each_format_is_recognised_from_its_source(
    root: Path, source: str, name: str, shape: tuple[int, ...], asked: bool
) -> None:
    dataset = {"source": source} | ({"format": name} if asked else {})
    facts = open_dataset(dataset, root, data_roots=[str(root)]).facts
    assert (facts.format, facts.shape) == (name, shape)


def test_registered_name_takes_precedence_over_a_path(root: Path) -> None:
    for name in ("digits", "synthetic"):
        (root / "a.npz").with_name(name).mkdir()
        assert open_dataset(name, root, data_roots=[str(root)]).facts.sizes.train > 1000


def test_folder_of_two_formats_is_read_in_the_requested_format(root: Path) -> None:
    (root / "tables" / "idx").symlink_to(root / "idx")
    for path in (root / "idx").iterdir():
        (root / "tables" / path.name).symlink_to(path)
    formats = [
        open_dataset({"source": "tables", "format": asked}, root, data_roots=[str(root)]).facts.format
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


def test_linked_class_folders_are_read(root: Path) -> None:
    (root / "linked").mkdir()
    for name in ("odd", "even"):
        (root / "linked" / name).symlink_to(root / "images" / "train" / name)
    (root / "linked" / "up").symlink_to(root / "linked")
    assert open_dataset("linked", root, data_roots=[str(root)]).facts.classes == ("even", "odd")


def test_dataset_is_decoded_in_colour_when_one_part_is_in_colour(root: Path) -> None:
    for name in ("even", "odd"):
        (root / "images" / "test" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(root / "images" / "test" / name / "1.png")
    assert open_dataset("images", root, data_roots=[str(root)]).facts.shape == (8, 8, 3)


def test_hidden_files_are_ignored(root: Path) -> None:
    (root / "tables" / "_SUCCESS").touch()
    (root / "camera" / "cat").mkdir(parents=True)
    (root / "camera" / "dog").mkdir()
    for name in ("cat/_DSC0001.png", "dog/_DSC0002.png"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(root / "camera" / name)
    (root / "images" / ".cache").mkdir()
    (root / "images" / ".cache" / "a.parquet").touch()
    assert open_dataset("images", root, data_roots=[str(root)]).facts.sizes.train == 36
    assert open_dataset("camera", root, data_roots=[str(root)]).facts.format == "images"


@pytest.mark.parametrize(
    ("source", "asked", "found"),
    [
        ("a.npz", "parquet", "arrays"),
        ("a.npz", "images", "arrays"),
        ("tables", "arrays", "parquet"),
        ("images", "parquet", "images"),
        ("digits", "images", "arrays"),
        ("synthetic", "images", "synthetic"),
    ],
)
def test_source_of_another_format_than_requested_is_bad_data(root: Path, source: str, asked: str, found: str) -> None:
    with pytest.raises(BadData, match=f"dataset.format: {asked} was given, but '{source}' is {found}"):
        open_dataset({"source": source, "format": asked}, root, data_roots=[str(root)])


@pytest.mark.parametrize("source", ["a.npz", "digits"])
def test_format_synthetic_is_refused_for_any_other_source(root: Path, source: str) -> None:
    with pytest.raises(BadData, match=r"dataset\.(source: 'a.npz' is no synthetic data|format: synthetic was given)"):
        open_dataset({"source": source, "format": "synthetic"}, root, data_roots=[str(root)])


UNDERSTOOD = ": a folder with a sub-folder of images for each class, .parquet files, an .npz file, and IDX files are"


@pytest.mark.parametrize(
    ("files", "source", "sentence"),
    [
        ({}, "x", "'x' is an empty folder" + UNDERSTOOD),
        ({"x.csv": b"1,2"}, "x/x.csv", "'x/x.csv' is a file of no format that is known" + UNDERSTOOD),
        ({"a.jpg": b"x"}, "x/a.jpg", "'x/a.jpg' is one image" + UNDERSTOOD),
        ({"a.JPG": b"x"}, "x", "'x' is a folder of images without a sub-folder for each class" + UNDERSTOOD),
        ({"a.npz": b"x"}, "x", "'x' is a folder: name the .npz file in it, 'a.npz'" + UNDERSTOOD),
        (
            {"cats/.keep": b"", "dogs/.keep": b""},
            "x",
            "'x' is a folder whose sub-folders hold neither images nor .parquet files" + UNDERSTOOD,
        ),
        ({"notes.txt": b""}, "x", "'x' is a folder of no format that is known" + UNDERSTOOD),
        ({".hidden": b""}, "x", "'x' is an empty folder" + UNDERSTOOD),
    ],
)
def test_source_of_unknown_format_is_bad_data(
    tmp_path: Path, files: dict[str, bytes], source: str, sentence: str
) -> None:
    (tmp_path / "x").mkdir()
    for name, content in files.items():
        (tmp_path / "x" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "x" / name).write_bytes(content)
    for field in ("source", "validation"):
        with pytest.raises(BadData) as refused:
            open_dataset({"source": "digits", field: source}, tmp_path, data_roots=[str(tmp_path)])
        assert str(refused.value).startswith(f"dataset.{field}: {sentence}")


def test_opening_does_not_block_on_a_named_pipe(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for name in ("a.npz", "x/train-images-idx3-ubyte"):
        os.mkfifo(tmp_path / name)
    for source, sentence in (("a.npz", "'a.npz' is a file of no format"), ("x", "'x' is an empty folder")):
        with pytest.raises(BadData, match=sentence):
            open_dataset(source, tmp_path, data_roots=[str(tmp_path)])


def test_empty_folder_named_like_a_data_file_is_bad_data(tmp_path: Path) -> None:
    for name in ("a.npz", "train-images-idx3-ubyte"):
        (tmp_path / name).mkdir()
        with pytest.raises(BadData, match=f"dataset.source: '{name}' is an empty folder"):
            open_dataset(name, tmp_path, data_roots=[str(tmp_path)])


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


def test_sources_at_urls_are_opened(root: Path, tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    for path in (root / "idx").iterdir():
        files.pipe_file(f"/bucket/idx/{path.name}", path.read_bytes())
    files.pipe_file("/bucket/x/notes.txt", b"")
    roots = ["memory://bucket"]
    assert open_dataset("memory://bucket/idx", tmp_path, data_roots=roots).facts.shape == (8, 8, 1)
    file = "memory://bucket/idx/train-images-idx3-ubyte"
    assert open_dataset(file, tmp_path, data_roots=roots).facts.shape == (8, 8, 1)
    with pytest.raises(BadData, match="'memory://bucket/x' is a folder of no format that is known"):
        open_dataset("memory://bucket/x", tmp_path, data_roots=roots)


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
