"""The collectives outside a training step; those inside are in `trainer.averaging`.

All ranks must make the same calls in the same sequence, or they wait for ever.

Figures travel as JSON in byte tensors. Nothing is unpickled here; Horovod's own object functions do that.
"""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from jobs.model.launch import Launch
from jobs.model.os_errors import in_words
from trainer.errors import BadData, NoDevice, PeerFailed, RanksDisagree, TrainerError
from trainer.own_address import check_own_address

T = TypeVar("T")

# Horovod's threads wake a thousand times a second. Gloo's thread spins while an early message waits to be received.
# A batch thread takes no core from a thread that computes. It still runs as soon as that one waits for a message.
_CPU_CYCLE_MS = "0.5"  # half of Horovod's default: a small message mostly waits for the next cycle


@dataclass(frozen=True)
class Ranks:
    """This rank's place among the connected ranks."""

    rank: int
    local_rank: int
    size: int
    local_size: int  # ranks on this host


def connect(launch: Launch) -> Ranks:
    """Connect to the other ranks. Raises `RanksDisagree` if their number is not what the launch file asks for.

    Raises `TrainerError` if others could not reach this rank.
    """
    check_own_address()
    if launch.device == "cpu":
        os.environ.setdefault("HOROVOD_CYCLE_TIME", _CPU_CYCLE_MS)
    before = _threads()
    hvd.init()
    for thread in _threads() - before:
        with suppress(OSError):  # a container may forbid it; then the ranks are slower, but right
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
    ranks = Ranks(rank=hvd.rank(), local_rank=hvd.local_rank(), size=hvd.size(), local_size=hvd.local_size())
    if ranks.size != launch.spec.ranks_on(launch.gpus):
        raise RanksDisagree(f"{ranks.size} ranks were started for {launch.gpus} gpus")
    return ranks


def _threads() -> set[int]:
    """The threads of this process."""
    return {int(name) for name in os.listdir("/proc/self/task")}


def disconnect() -> None:
    """Disconnect, so that the peers do not treat the end of this process as a failure."""
    hvd.shutdown()


def claim_devices(launch: Launch, local_rank: int) -> None:
    """Give this rank its threads, and its GPU or its GPUs, or none. Before TensorFlow runs its first op.

    It limits inter-op threads too: with intra-op alone a rank takes cores of its neighbours. On a CPU each replica has
    a logical device. Raises `NoDevice`.
    """
    replicas = launch.gpus // launch.spec.ranks_on(launch.gpus)
    tf.config.threading.set_intra_op_parallelism_threads(launch.threads_per_rank)
    tf.config.threading.set_inter_op_parallelism_threads(launch.threads_per_rank)
    if launch.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
        if not launch.spec.jit:  # then XLA would refuse networks with max pooling; it has its own fixed sequence
            tf.config.experimental.enable_op_determinism()  # on a CPU it costs nothing; on a GPU it does
        return
    gpus = tf.config.list_physical_devices("GPU")
    own = gpus[local_rank * replicas : (local_rank + 1) * replicas]
    if len(own) < replicas:
        raise NoDevice(_why_no_gpu(launch.gpu_uuids, local_rank, len(gpus)))
    tf.config.set_visible_devices(own, "GPU")
    for gpu in own:
        tf.config.experimental.set_memory_growth(gpu, True)


def _why_no_gpu(uuids: Sequence[str], local_rank: int, seen: int) -> str:
    built = "" if tf.test.is_built_with_cuda() else f". TensorFlow {tf.__version__} is built for CPUs"
    return (
        f"local rank {local_rank} on host {socket.gethostname()} has no GPU: TensorFlow sees {seen} of the"
        f" {len(uuids)} that it was given ({', '.join(uuids)}){built}"
    )


def gather(value: Any) -> list[Any]:
    """The values that the ranks passed, sorted by rank. A value is anything that JSON can carry."""
    if hvd.size() == 1:
        return [value]
    content = np.frombuffer(json.dumps(value).encode(), np.uint8)
    with tf.device("CPU:0"):
        lengths = hvd.allgather(tf.constant([len(content)]), name="gather.lengths").numpy()
        joined = hvd.allgather(tf.constant(content), name="gather.contents").numpy()
    return [json.loads(part.tobytes()) for part in np.split(joined, np.cumsum(lengths)[:-1])]


def agree(name: str, value: Any) -> None:
    """Make sure that `value` is the same on all ranks. Raises `RanksDisagree` on every one."""
    values = gather(value)
    for rank, other in enumerate(values):
        if other != values[0]:
            raise RanksDisagree(f"{name} differs between ranks: {values[0]} on rank 0, {other} on rank {rank}")


def fail_together(action: Callable[[], T]) -> T:
    """Run `action`; if it fails on one rank, raise on every rank, so that none waits for a lost peer.

    The rank that met an error raises it; the others raise `BadData` with its text, or `PeerFailed`. No collective
    may be in `action`.
    """
    try:
        result = action()
    except Exception as error:
        gather([isinstance(error, BadData), str(error) if isinstance(error, TrainerError) else in_words(error)])
        raise
    for rank, failure in enumerate(gather(None)):
        if failure is not None:
            is_bad_data, text = failure
            raise BadData(text) if is_bad_data else PeerFailed(f"rank {rank} cannot go on: {text}")
    return result


def sum_over_ranks(values: Sequence[float]) -> list[float]:
    """Each value summed over all ranks."""
    if hvd.size() == 1:
        return list(values)
    with tf.device("CPU:0"):
        total = hvd.allreduce(tf.constant(values, tf.float64), op=hvd.Sum, name="sum").numpy()
    return [float(value) for value in total]


def broadcast(variables: Iterable[Any]) -> None:
    """Give every rank the values that Keras variables have on rank 0."""
    if hvd.size() > 1:
        hvd.broadcast_variables([variable.value for variable in variables], root_rank=0)


def agree_on_weights(copies: Iterable[Iterable[Any]], moment: str) -> None:
    """Make sure that all copies on all ranks are the same weights, by their digests. Raises `RanksDisagree` on each.

    It costs little, and nothing else notices weights that differ.
    """
    name = f"the digest of all weights {moment}"
    digests = [_digest(weights) for weights in copies]
    for number, other in enumerate(digests):
        if other != digests[0]:
            raise RanksDisagree(f"{name} differs between replicas: {digests[0]} on 0, {other} on {number}")
    agree(name, digests[0])


def _digest(weights: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for variable in weights:
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()[:16]
