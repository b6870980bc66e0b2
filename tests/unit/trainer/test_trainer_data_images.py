"""Folders of images, as a session opens them."""

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.archives import write_files
from tests.datasets import open_dataset, spec_of
from tests.pictures import UNREADABLE, plain
from tests.unit.trainer.reading import read
from trainer.data.images.source import collections
from trainer.data.interfaces import Host
from trainer.data.location import locate
from trainer.data.opening import Dataset, open_source
from trainer.errors import BadData

SIZE = 6


@pytest.fixture
def chips(tmp_path: Path) -> Path:
    """100 images of 2 classes, each of another grey: `good` is darker than 100, `scrap` is lighter.

    The names of the latter say the wrong kind: the content decides.
    """
    folder = tmp_path / "data" / "chips"
    write_files(folder, {f"good/{number}.png": plain(number) for number in range(50)})
    return write_files(folder, {f"scrap/{number}.JPG": plain(100 + number) for number in range(50)})


def open_chips(folder: Path, ranks: int = 1, **fields: Any) -> Dataset:
    dataset = {"source": folder.name, "validation": 0.2, **fields}
    return open_dataset(dataset, folder.parent.parent, data_roots=[str(folder.parent)], ranks=ranks)


def host_of(folder: Path, threads: int = 1) -> Host:
    scratch = folder.parent.parent
    return Host(data_roots=[str(folder.parent)], cache_dir=scratch / "cache", scratch_dir=scratch, threads=threads)


def samples_of(dataset: Dataset) -> list[tuple[int, int]]:
    """(grey of the first pixel, label) of every sample, in the order of the parts."""
    pixels, labels = read(dataset.train, dataset.validation)
    return list(zip(pixels[:, 0, 0, 0].tolist(), labels.tolist(), strict=True))


def test_a_sub_folder_is_a_class(chips: Path) -> None:
    dataset = open_chips(chips)
    facts = dataset.facts
    assert (facts.format, facts.shape, facts.dtype, facts.value_range) == ("images", (SIZE, SIZE, 1), "uint8", (0, 255))
    assert facts.classes == ("good", "scrap")
    assert (facts.sizes.train, facts.sizes.validation, facts.damaged) == (80, 20, {})
    assert sorted(samples_of(dataset)) == [(grey, int(grey >= 100)) for grey in [*range(50), *range(100, 150)]]


def test_parts_are_read_from_their_own_folders(chips: Path) -> None:
    parted = chips.parent / "parted"
    for part in ("train", "val", "test"):
        write_files(parted / part, {f"{name}/deep/er/1.png": plain(7) for name in ("good", "scrap")})
    write_files(parted, {"test/scrap/2.png": plain(8)})
    sizes = open_chips(parted).facts.sizes
    assert (sizes.train, sizes.validation, sizes.test) == (2, 2, 3)
    write_files(parted, {"validation/good/1.png": plain(1)})
    with pytest.raises(BadData, match="both in val/ and in validation/"):
        open_chips(parted)
    write_files(chips, {"train/good/1.png": plain(1)})
    with pytest.raises(BadData, match=r"'chips' holds images both in train/ and in good/: .*'chips/train'$"):
        open_chips(chips)


def test_files_that_are_no_images_of_a_class_are_left_out(chips: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("readme.txt", "good/notes.csv", "stray.png", ".hidden/1.png", "good/.1.png", "__MACOSX/good/1.png")
    write_files(chips, dict.fromkeys(names, plain(1)))
    os.mkfifo(chips / "good" / "pipe")
    dataset = open_chips(chips)
    assert len(dataset.train) + len(dataset.validation) == 100
    assert dataset.facts.classes == ("good", "scrap")
    assert "chips: 2 files are no images, and 1 images lie in no folder of a class" in capfd.readouterr().out


def test_file_names_may_hold_any_characters(chips: Path) -> None:
    names = ("ünïcödé 图.png", "new\nline.png", "_DSC0001.png", "a:b;c|d.png", " .png", "folder.png/1.png")
    write_files(chips / "good", dict.fromkeys(names, plain(60)) | {os.fsdecode(b"\xff\xfe.png"): b"damaged"})
    dataset = open_chips(chips)
    assert samples_of(dataset).count((60, 0)) == 6
    assert dataset.facts.damaged == {r"good/\xff\xfe.png": "is not a JPEG, PNG, BMP or GIF image"}
    json.dumps(list(dataset.facts.damaged)).encode()


@pytest.mark.parametrize("source", ["flat", "empty"])
def test_no_image_in_a_class_is_bad_data(source: str, tmp_path: Path) -> None:
    data = write_files(tmp_path / "data", {"flat/1.png": plain(1), "empty/good/notes.txt": b""})
    location = locate(source, [str(data)], field="dataset.source")
    with pytest.raises(BadData, match=rf"^'{source}' holds no image \(.*\) in a sub-folder for its class$"):
        collections(location, spec_of(source).dataset, host_of(data / source))


@pytest.mark.parametrize("name", ["0.png", "1.png"], ids=["of rank 0", "of rank 1"])
def test_one_colour_image_makes_all_of_them_colour(name: str, chips: Path) -> None:
    write_files(chips, {f"good/{name}": plain((1, 2, 3))})
    dataset = open_chips(chips, ranks=2)
    assert dataset.facts.shape == (SIZE, SIZE, 3)
    pixels, _ = read(dataset.train)
    assert ((pixels[..., 0] == pixels[..., 1]).all(axis=(1, 2))).sum() >= 79


def test_images_of_different_sizes_need_image_size(chips: Path) -> None:
    write_files(chips, {"scrap/large.png": plain(200, (9, 9))})
    with pytest.raises(BadData, match=r"^dataset\.image_size: the images of chips differ in size \(as 6x6 and 9x9"):
        open_chips(chips, ranks=2)
    dataset = open_chips(chips, image_size=[4, 5])
    assert dataset.facts.shape == (4, 5, 1)
    assert (200, 1) in samples_of(dataset)


def test_few_damaged_images_are_left_out_and_named_and_many_end_the_job(chips: Path) -> None:
    write_files(chips / "scrap", {f"more{number}.png": plain(200) for number in range(300)})
    os.mkfifo(chips.parent / "pipe")
    (chips / "good" / "a.png").symlink_to("nothing")
    (chips / "good" / "b.png").symlink_to("../../pipe")
    write_files(chips / "good", {f"{name}.jpg": UNREADABLE[name] for name in ("nothing", "text")})
    dataset = open_chips(chips, ranks=2)
    assert dataset.facts.damaged == {
        "good/a.png": "cannot be read: No such file or directory",
        "good/b.png": "is no file",
        "good/nothing.jpg": "is empty",
        "good/text.jpg": "is not a JPEG, PNG, BMP or GIF image",
    }
    assert len(samples_of(dataset)) == 400
    assert open_chips(chips).facts == dataset.facts  # one rank finds what two find together
    write_files(chips / "good", {f"unreadable{number}.png": one for number, one in enumerate(UNREADABLE.values())})
    damaged = 4 + len(UNREADABLE)
    with pytest.raises(BadData, match=rf"^chips: {damaged} of {400 + damaged} samples are damaged"):
        open_chips(chips)


def test_file_that_is_damaged_after_the_survey_is_named(chips: Path) -> None:
    dataset = open_chips(chips)
    for path in (chips / "good").iterdir():
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(BadData, match=r"^chips: good/\d+\.png cannot be decoded: Invalid PNG data"):
        read(dataset.train)


def test_links_are_followed_only_below_the_data_roots(chips: Path, tmp_path: Path) -> None:
    write_files(chips.parent, {"elsewhere/1.png": plain(70)})
    write_files(tmp_path, {"outside/2.png": plain(80)})
    (chips / "good" / "inside.png").symlink_to("../../elsewhere/1.png")
    (chips / "third").symlink_to("../elsewhere")
    (chips / "good" / "around").symlink_to("..")
    (chips / "good" / "outside.png").symlink_to(tmp_path / "outside" / "2.png")
    dataset = open_chips(chips)
    assert {(70, 0), (70, 2)} <= set(samples_of(dataset))
    assert len(samples_of(dataset)) == 102
    assert dataset.facts.damaged == {"good/outside.png": "leads outside the data roots"}
    (chips / "fourth").symlink_to(tmp_path / "outside")
    with pytest.raises(BadData, match="chips: the folder fourth leads outside the data roots"):
        open_chips(chips)


def test_host_that_sees_other_files_than_rank_0_is_bad_data(chips: Path) -> None:
    spec, host = spec_of("chips").dataset, host_of(chips)
    before = open_source(spec, seed=1, host=host)
    write_files(chips, {"good/new.png": plain(1)})
    surveys = [before.survey(rank=0, ranks=2), open_source(spec, seed=1, host=host).survey(rank=1, ranks=2)]
    before.to_dataset(surveys)
    with pytest.raises(BadData, match="chips: this host sees other files than the one of rank 0"):
        open_source(spec, seed=1, host=host).to_dataset(surveys)


def test_a_remote_folder_gives_the_samples_of_a_local_one_and_the_disk_cache_keeps_them(
    chips: Path, tmp_path: Path
) -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.put(str(chips), "/store/chips", recursive=True)
    filesystem.pipe("/store/chips/good/damaged.png", b"damaged")
    fields = {"source": "memory://store/chips", "validation": 0.2}
    dataset = open_dataset(fields, tmp_path, data_roots=["memory://store"], ranks=2)
    cached = open_dataset(fields | {"cache": "disk"}, tmp_path, data_roots=["memory://store"])
    assert dataset.facts.damaged == {"good/damaged.png": "is not a JPEG, PNG, BMP or GIF image"}
    expected = sorted(samples_of(open_chips(chips)))
    assert sorted(samples_of(dataset)) == expected
    filesystem.rm("/store", recursive=True)
    with pytest.raises(BadData, match=r"^memory://store/chips: (good/\d+.png|scrap/\d+.JPG) cannot be read"):
        samples_of(dataset)
    assert sorted(samples_of(cached)) == expected  # the survey has read all of it
