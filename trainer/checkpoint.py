"""Checkpoints: what a restarted attempt continues from. Written and read by rank 0, each attempt in its own folder.

One .npz file each, named by its step: arrays without pickle, and the state as JSON among them. A zip file has a
checksum of every member, so a damaged file is noticed.
"""

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.runtime.checkpoint_folders import OTHER_JOB, attempt_folder, attempt_folders, checkpoint_file, complete_in
from jobs.runtime.files import make_private, open_regular
from trainer.errors import NoSpace, why_no_space
from trainer.space import free_in
from trainer.state import State
from trainer.storage import fitting_checkpoints

Arrays = Sequence[NDArray[Any]]

_UNFINISHED = ".tmp-checkpoint-*"
_TRIES = 10
_EXTRA_BYTES = 256 * 1024  # of a file besides its arrays
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory: arrays by group (model, optimizer, best)."""

    state: State
    arrays: Mapping[str, Arrays]


class CheckpointStore:
    """The checkpoints of an attempt: the `keep` newest of them, in a folder of its own below `root`.

    An attempt has the checkpoint that it starts from in its folder before its first step. Ranks of an earlier attempt
    may still be there, stopped or cut off. They may save more: nobody reads their folder any more.
    """

    def __init__(
        self, root: Path, *, attempt: int, keep: int, limit_bytes: int | None = None, artifact_bytes: int = 0
    ) -> None:
        self._root = root
        self._attempt = attempt
        self._folder = attempt_folder(root, attempt)
        self._keep = keep
        self._limit_bytes = limit_bytes  # of the folder above `root`, the job's
        self._artifact_bytes = artifact_bytes  # that the job will leave there at its end

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, and drop the oldest. Its name appears only when all of it is on disk.

        With a limit fewer are kept. The newest of the earlier checkpoints stays until the new one is whole, even above
        the limit. Raises `NoSpace`.
        """
        while True:
            try:
                return self._write(checkpoint)
            except Exception as error:
                why = why_no_space(error)
                if why is None:
                    raise
                if not self._drop_oldest():
                    raise NoSpace(f"the checkpoint cannot be written: {why}") from error

    def require_space(self, size_bytes: int) -> None:
        """Drop the oldest checkpoints until there is space for a new one. Raises `NoSpace` if that is not enough.

        A checkpoint that does not fit is not begun: it would take the last space of the disk for a moment.
        """
        while free_in(self._folder)[0] < size_bytes + _EXTRA_BYTES:
            if not self._drop_oldest():
                raise NoSpace(f"the checkpoint takes {size_bytes} bytes, and the disk has fewer")

    def _drop_oldest(self) -> bool:
        """Remove the oldest checkpoint of this attempt. False if that is the newest too."""
        paths = saved_in(self._folder)
        if len(paths) < 2:
            return False
        print(f"warning: no space: {paths[-1].name} is removed to make room for a new checkpoint", flush=True)
        paths[-1].unlink(missing_ok=True)
        return True

    def _write(self, checkpoint: Checkpoint) -> Path:
        make_private(self._folder)
        path = checkpoint_file(self._folder, checkpoint.state.progress.step)
        members = {f"{group}/{i}": a for group, arrays in checkpoint.arrays.items() for i, a in enumerate(arrays)}
        members["state"] = np.frombuffer(checkpoint.state.to_json().encode(), np.uint8)
        keep = self._make_room(sum(array.nbytes for array in members.values()))
        with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            # As `np.savez` does. But on a full disk that leaves the archive open, to fail again in its destructor.
            for name, array in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)  # type: ignore[no-untyped-call]
        unfinished_paths = self._folder.glob(_UNFINISHED)
        own = saved_in(self._folder)
        for old in (*own[keep:], *unfinished_paths):
            old.unlink(missing_ok=True)
        if len(own) >= keep:
            shutil.rmtree(attempt_folder(self._root, OTHER_JOB), ignore_errors=True)
        return path

    def _make_room(self, size_bytes: int) -> int:
        """How many checkpoints of this size may stay. Removes old ones if the job's limit allows fewer than `keep`."""
        keep = fitting_checkpoints(
            self._root.parent, self._folder, keep=self._keep, size_bytes=size_bytes,
            artifact_bytes=self._artifact_bytes, limit_bytes=self._limit_bytes,
        )  # fmt: skip
        if keep < self._keep:
            for old in saved_in(self._folder)[max(keep - 1, 1) :]:
                old.unlink(missing_ok=True)
        return keep

    def begin(self, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> Checkpoint | None:
        """Take over what the newest attempt before this one has: its newest whole checkpoint, or None.

        A checkpoint is whole if its groups have these shapes. Others are skipped with a log line. From here on the
        attempt has a folder, which may be empty. The next attempt continues from this folder only, because the
        records of earlier attempts beyond this point are void.
        """
        for _ in range(_TRIES):
            source = self._newest_folder()
            if source is None:
                make_private(self._folder)
                return None
            try:
                checkpoint, kept_paths = self._newest_whole(source, shapes)
                if source != self._folder:
                    self._take_over(kept_paths)
            except FileNotFoundError:
                continue  # another attempt took it over and removed it just now
            if checkpoint is not None:  # otherwise the files stay, for a person to look at
                self._remove_earlier()
            return checkpoint
        raise OSError(f"{self._root} changes all the time")

    def of_other_job(self, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> Checkpoint:
        """The checkpoint of another job from which this one continues. It stays where it is.

        Raises `LookupError` if there is none, and `ValueError` if it is damaged or of another model.
        """
        paths = saved_in(attempt_folder(self._root, OTHER_JOB))
        if not paths:
            raise LookupError("it is not on this host")
        try:
            return _read(paths[0], shapes)
        except _DAMAGE as error:
            raise ValueError(str(error)) from error

    def _newest_folder(self) -> Path | None:
        """The folder of the newest attempt up to this one. Else the root: old releases put the files there."""
        folders = [(number, folder) for number, folder in attempt_folders(self._root) if 0 < number <= self._attempt]
        if folders:
            return max(folders)[1]
        return self._root if saved_in(self._root) else None

    def _newest_whole(
        self, source: Path, shapes: Mapping[str, Sequence[tuple[int, ...]]]
    ) -> tuple[Checkpoint | None, list[Path]]:
        """The newest whole checkpoint there, and the files to keep: its own and those before it."""
        paths = saved_in(source)
        for position, path in enumerate(paths):
            try:
                return _read(path, shapes), paths[position : position + self._keep]
            except FileNotFoundError:
                raise
            except _DAMAGE as error:
                print(f"warning: checkpoint {path.name} is skipped: {type(error).__name__}: {error}", flush=True)
        return None, []

    def _take_over(self, kept_paths: Sequence[Path]) -> None:
        """Make this attempt's folder, with these files or not at all."""
        unfinished = self._root / f".tmp-{self._folder.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            make_private(unfinished)
            for path in kept_paths:
                _link(path, unfinished / path.name)
            _sync(unfinished)
            os.replace(unfinished, self._folder)
        finally:  # otherwise its links would keep the files for ever
            shutil.rmtree(unfinished, ignore_errors=True)
        _sync(self._root)

    def _remove_earlier(self) -> None:
        for number, folder in attempt_folders(self._root):
            if number < self._attempt:
                shutil.rmtree(folder, ignore_errors=True)
        for path in (*saved_in(self._root), *self._root.glob(_UNFINISHED)):
            path.unlink(missing_ok=True)


def saved_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    return [checkpoint.path for checkpoint in complete_in(0, folder, of_script=False)]


def _link(path: Path, name: Path) -> None:
    """Give a file a second name, or copy it if the file system has no links. A file with its name is never changed."""
    try:
        os.link(path, name)
    except FileNotFoundError:
        raise
    except OSError:
        with atomic_write(name) as temporary:
            shutil.copyfile(path, temporary)


def _read(path: Path, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> Checkpoint:
    # Opened here, because NumPy does not close a file that is no zip file.
    with open(open_regular(path, follow=False), "rb") as opened, np.load(opened, allow_pickle=False) as file:
        state = State.from_json(file["state"].tobytes().decode())
        groups: dict[str, list[NDArray[Any]]] = {}
        for name in file.files:
            group, _, _number = name.rpartition("/")
            if group:
                groups.setdefault(group, []).append(file[name])
    for group, expected in shapes.items():
        shapes_in_file = [array.shape for array in groups.get(group, [])]
        if shapes_in_file != list(expected):
            raise ValueError(f"it is of another model: {group} has other shapes")
    return Checkpoint(state, groups)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path that takes the name `path`, durably, when the block ends without an error."""
    temporary = path.with_name(f".tmp-{path.name}")  # the suffix stays last: Keras chooses a file format by it
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Force a file's content, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
