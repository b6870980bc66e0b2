"""How an error becomes an exit record."""

import pytest

from jobs.model.records import UnexplainedExit
from jobs.model.states import EndReason
from trainer import errors
from trainer.errors import BadData, Diverged, NoDevice, Outcome, PeerFailed


def named(name: str, base: type[Exception] = Exception) -> type[Exception]:
    """An error with a name of TensorFlow's or Horovod's."""
    return type(name, (base,), {})


ResourceExhaustedError, UnknownError, InternalError = map(
    named, ("ResourceExhaustedError", "UnknownError", "InternalError")
)
HorovodInternalError = named("HorovodInternalError", RuntimeError)
NO_MEMORY = ("out_of_memory", "out of memory with a batch of 64 per GPU: try 32", 1)
LOST = ("peer_lost", "a collective failed: a peer is gone", 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BadData("no such folder"), ("bad_data", "no such folder", 65)),
        (NoDevice("local rank 1 has no GPU"), ("no_device", "local rank 1 has no GPU", 1)),
        (MemoryError(), NO_MEMORY),
        (ResourceExhaustedError("OOM"), NO_MEMORY),
        (InternalError("failed to allocate 2.0GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"), NO_MEMORY),
        (InternalError("odd"), ("internal_error", "InternalError: odd", 1)),
        (HorovodInternalError("x"), LOST),
        (UnknownError("[/src/gloo/pair.cc:589] Read error [127.0.0.1]:19: Connection reset by peer"), LOST),
        (UnknownError("no such device"), ("internal_error", "UnknownError: no such device", 1)),
        (PeerFailed("rank 1 cannot go on"), ("peer_lost", "rank 1 cannot go on", 1)),
        (Diverged("the loss is nan at step 3"), ("diverged", "the loss is nan at step 3", 1)),
        (KeyError("x"), ("internal_error", "KeyError: 'x'", 1)),
        (FileNotFoundError(2, "No such file", "/srv/runs/a/1.npz"), ("internal_error", "No such file: '1.npz'", 1)),
    ],
)
def test_error_becomes_a_reason_a_message_and_an_exit_code(error: Exception, expected: tuple[str, str, int]) -> None:
    assert errors.exit_of_error(error, stop_asked=False, per_gpu_batch=64) == expected


def test_a_batch_of_one_and_the_stop_file_change_the_message() -> None:
    alone = errors.exit_of_error(MemoryError(), stop_asked=False, per_gpu_batch=1)
    assert alone[1] == "out of memory: try a smaller model"
    obeyed = errors.exit_of_error(HorovodInternalError(), stop_asked=True)
    assert obeyed == ("stop_requested", "a peer left first", 0)


def test_unexpected_error_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("odd")
    except ValueError as error:
        errors.exit_of_error(error, stop_asked=False)
    assert "Traceback" in capsys.readouterr().err


def test_every_outcome_is_a_known_reason_of_an_exit() -> None:
    assert {outcome.value for outcome in Outcome} <= {*EndReason, *UnexplainedExit}
    assert errors.exit_of_outcome(Outcome.EARLY_STOPPED) == ("early_stopped", None, 0)


def test_files_are_named_below_the_data_roots() -> None:
    roots = ["/data", "/srv/hora/datasets", "/srv/hora", "s3://bucket/sets", "/"]
    for text, expected in {
        "'/srv/hora/datasets/chips/1/a.png' is a pipe": "'chips/1/a.png' is a pipe",
        "/data/chips: a; /database/b; /mnt/data/c": "chips: a; /database/b; /mnt/data/c",
        "not below the data roots (/data, s3://bucket/sets)": "not below the data roots (/data, s3://bucket/sets)",
        "s3://bucket/sets/chips is empty": "s3://bucket/sets/chips is empty",
    }.items():
        reason, message, _ = errors.exit_of_error(BadData(text), stop_asked=False, data_roots=roots)
        assert (reason, message) == ("bad_data", expected)
