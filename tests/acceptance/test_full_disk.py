"""A real job trains through a full disk, another one waits for space, and both go on when there is space again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import ENDLESS, ended, kinds, no_process_left, points, wait_for_epochs
from tests.full_disks import fill_up, small_disk
from tests.waiting import until

pytestmark = pytest.mark.long("faults")

EPOCHS, STEPS = 30, 42  # steps of an epoch: 1,350 samples in batches of 32


@pytest.fixture(scope="module")
def full(session_folder: Path) -> Iterator[Stack]:
    """A stack whose runs lie on a small disk. Its ranks do not wait long for space for their results."""
    home = session_folder / "full"
    with small_disk(home / "runs", size_bytes=96 * 2**20), pytest.MonkeyPatch.context() as environment:
        environment.setenv("HORA_SPACE_WAIT_S", "2")
        home.chmod(0o755)
        with Stack(home, port=0, slots=2) as stack:
            yield stack


@pytest.fixture(scope="module")
def client(full: Stack) -> Iterator[Service]:
    with Service(full.url, full.token) as client:
        yield client


def note_of(runs: Path, job_id: str) -> str:
    return (runs / job_id / "attempt-1" / "records" / "rank-0.note").read_text()


def test_jobs_train_through_a_full_disk_and_wait_for_space(full: Stack, client: Service) -> None:
    runs = full.home / "runs"
    spec = ENDLESS | {"gpus": 1, "model": "lenet5", "checkpoint": {"keep": 1}}  # no older one makes room
    training = client.submit(spec)["id"]
    wait_for_epochs(client, training, epochs=1)
    ending = client.submit(spec | {"epochs": EPOCHS})["id"]
    wait_for_epochs(client, ending, epochs=1)
    fill = fill_up(runs)
    until(lambda: "out_of_space" in kinds(client, training), what="the event of the job without space")
    said = note_of(runs, training)
    until(lambda: note_of(runs, training) != said, what="more records in memory")

    # The other job reaches its end, finds no space for its results, and waits in the queue.
    # The disk is filled again and again: a checkpoint that was not finished makes room.
    waiting = until(
        lambda: fill_up(runs) and (client.job(ending)["waiting"] or {}).get("reason"), what="the job in the queue"
    )
    assert "takes no jobs until there is space: runs has 0.0 MB free, less than" in str(waiting)
    (attempt,) = client.attempts(ending)
    assert attempt["end_reason"] == "no_space"
    assert (client.job(ending)["restarts"], client.job(ending)["status"]) == (0, "queued")
    assert client.readiness()["status"] == "no_space"
    (host,) = client.hosts()
    assert host["no_space"].startswith("runs has 0.0 MB free")
    assert client.job(training)["status"] == "running"

    fill.unlink()
    job = ended(client, ending)
    assert (job["status"], job["end_reason"], job["restarts"]) == ("succeeded", "completed", 0)
    until(lambda: "checkpoint_skipped" in kinds(client, training), what="the records that waited")
    epoch = client.job(training)["progress"]["epoch"]
    wait_for_epochs(client, training, epochs=epoch + 1)
    assert len(client.attempts(training)) == 1
    client.cancel(training)
    ended(client, training)
    no_process_left(client, training)
    assert sorted(points(client, ending, "loss", axis="step", rank=0)) == list(range(1, EPOCHS * STEPS + 1))
    epochs = sorted(points(client, training, "loss"))
    assert epochs == list(range(1, len(epochs) + 1))
