"""The errors of the trainer, and how an outcome or an error becomes an exit record and an exit code.

TrainerError
  BadData          the data, or what the spec asks of it, is wrong; a restart would not help
  PeerFailed       another rank cannot continue
  RanksDisagree    ranks resolved different figures or hold different weights
  Diverged         the loss is NaN or infinite
  NoDevice         this rank has no GPU that TensorFlow can use
  NoSpace          a disk of this rank's host is full
  StorageTooSmall  a checkpoint does not fit into what the job may keep
"""

import os
import re
import sys
from collections.abc import Sequence
from enum import StrEnum

from jobs.model.os_errors import in_words
from jobs.runtime.files import FULL

BAD_DATA_CODE = 65  # EX_DATAERR of sysexits.h
LEFT_WITHOUT_PEERS_CODE = 143  # not 0: horovodrun would let the peers wait for ever


class TrainerError(Exception):
    """An error whose text is written for the person who submitted the job."""


class BadData(TrainerError):
    """The data cannot be trained on; the text is one sentence that says what to change."""


class PeerFailed(TrainerError):
    """Another rank cannot go on; the text says which and why."""


class RanksDisagree(TrainerError):
    """Ranks that must be equal are not."""


class Diverged(TrainerError):
    """The loss is no longer a number."""


class NoDevice(TrainerError):
    """TensorFlow does not see the GPU that this rank was given. A restart on the same host would not help."""


class NoSpace(TrainerError):
    """A disk of this rank's host is full, or cannot be written. The job may go on elsewhere, or later."""


class StorageTooSmall(TrainerError):
    """Not even one checkpoint and the artifacts fit into what the job may keep on its host."""


class Outcome(StrEnum):
    """How a run that did not fail ended; each is a reason of `RankExited` too."""

    COMPLETED = "completed"
    EARLY_STOPPED = "early_stopped"
    PRUNED = "pruned"
    STOP_REQUESTED = "stop_requested"


# The sentence of these says all.
_SAYS_ALL = ((BadData, "bad_data", BAD_DATA_CODE), (NoDevice, "no_device", 1), (Diverged, "diverged", 1))


def exit_of_outcome(outcome: Outcome) -> tuple[str, str | None, int]:
    """(reason, message, exit code) of a run that did not fail."""
    return outcome.value, None, 0


def exit_of_error(
    error: BaseException, *, stop_asked: bool, per_gpu_batch: int | None = None, data_roots: Sequence[str] = ()
) -> tuple[str, str | None, int]:
    """(reason, message, exit code) of a run that failed; the traceback of what is not foreseen goes to the log.

    `stop_asked`: the stop file is there. SIGTERM alone does not count: horovodrun sends it to the peers of a failed
    rank, and those should say that they lost a peer.
    """
    for kind, reason, code in _SAYS_ALL:
        if isinstance(error, kind):
            return reason, without_roots(str(error), data_roots), code
    sys.excepthook(type(error), error, error.__traceback__)  # as `traceback` prints, without importing it
    if why := why_no_space(error):
        return _exit_without_space(why, stop_asked=stop_asked)
    if is_out_of_memory(error):
        return "out_of_memory", _memory_advice(per_gpu_batch), 1
    if isinstance(error, PeerFailed) or _is_lost_peer(error):
        if stop_asked:  # the peer saw the stop file a moment earlier
            return "stop_requested", "a peer left first", 0
        return "peer_lost", str(error) if isinstance(error, PeerFailed) else "a collective failed: a peer is gone", 1
    message = str(error) if isinstance(error, TrainerError) else in_words(error)
    return "internal_error", message, 1


def without_roots(text: str, data_roots: Sequence[str]) -> str:
    """A text that names files by their paths below the data roots: whoever reads it need not know the host's paths."""
    for root in sorted(data_roots, key=len, reverse=True):
        if root.strip("/") and "://" not in root:
            text = re.sub(rf"(?<![\w/.-]){re.escape(root.rstrip('/'))}/", "", text)
    return text


def _exit_without_space(why: str, *, stop_asked: bool) -> tuple[str, str | None, int]:
    if stop_asked:  # the reason for the stop is the reason of the end
        return "stop_requested", f"it saved nothing: {why}", 0
    return "no_space", f"a disk of its host is full: {why}", 1


def why_no_space(error: BaseException | None) -> str | None:
    """What the system says of a full disk, if that is behind an error; None if it is not.

    Libraries change the error: for TensorFlow it is a lack of resources, as of memory, and HDF5 hides it in a text.
    """
    while error is not None:
        if isinstance(error, NoSpace):
            return str(error)
        for number in FULL:
            if (isinstance(error, OSError) and error.errno == number) or os.strerror(number) in str(error):
                return os.strerror(number)
        error = error.__cause__ or error.__context__
    return None


# TensorFlow's errors are recognized by name: importing TensorFlow may be what failed.
def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the host or on the GPU."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"ResourceExhaustedError", "MemoryError"}:
        return True
    # CUDA's libraries allocate for themselves, and what they say TensorFlow passes on as an error of its own.
    return "InternalError" in kinds and any(sign in str(error) for sign in ("OUT_OF_MEMORY", "ALLOC_FAILED"))


def _is_lost_peer(error: BaseException) -> bool:
    """Whether a collective failed: Horovod's own error, or the one that TensorFlow wraps it in.

    What broke first decides which: Horovod's controller noticed, or the transport did in the middle of a message.
    """
    kind, text = type(error).__name__, str(error).lower()
    if kind == "HorovodInternalError" or "horovod has been shut down" in text:
        return True
    return kind == "UnknownError" and any(name in text for name in ("horovod", "gloo", "nccl"))


def _memory_advice(per_gpu_batch: int | None) -> str:
    if per_gpu_batch is None or per_gpu_batch == 1:
        return "out of memory: try a smaller model"
    return f"out of memory with a batch of {per_gpu_batch} per GPU: try {per_gpu_batch // 2}"
