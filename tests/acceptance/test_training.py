"""A user's main path: submit a job, train it with a real horovodrun, and read its results."""

from itertools import groupby
from pathlib import Path

import pytest

from hora.service import Json, Service
from hora.service.live import LiveEvent
from tests.acceptance.conftest import kinds, no_process_left, points
from tests.event_files import event_points

SMALLEST = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2}


@pytest.fixture(scope="module")
def followed(client: Service) -> tuple[str, list[LiveEvent]]:
    """A job of the smallest spec, trained on two ranks, and all events of its live stream."""
    job_id = client.submit(SMALLEST)["id"]
    return job_id, list(client.follow(job_id, include=["event", "state", "progress", "metrics", "logs"]))


@pytest.fixture(scope="module")
def two_ranks(client: Service, followed: tuple[str, list[LiveEvent]]) -> Json:
    """The ended job."""
    return client.wait(followed[0], timeout_s=240)


def test_the_live_stream_of_a_job_sends_the_same_data_as_the_lists(
    client: Service, followed: tuple[str, list[LiveEvent]]
) -> None:
    job_id, events = followed
    history = [event.data for event in events if event.event == "event"]
    assert sorted(history, key=lambda event: event["id"]) == client.events(job_id)
    lines = [line for event in events if event.event == "logs" for line in event.data["items"]]
    assert sorted(lines, key=lambda line: line["id"]) == list(client.log_lines(job_id))
    series_sent = [series for event in events if event.event == "metrics" for series in event.data["series"]]
    steps = [
        step for series in series_sent if (series["name"], series["rank"]) == ("loss", 0) for step in series["step"]
    ]
    assert steps == list(points(client, job_id, "loss", axis="step", rank=0))
    statuses = [event.data["status"] for event in events if event.event == "state"]
    assert [status for status, _ in groupby(statuses)][-2:] == ["running", "succeeded"]
    assert len([event for event in events if event.event == "progress"]) > 1
    assert events[-1].event == "end"


def test_a_network_learns_digits_on_two_ranks_and_its_history_is_complete(client: Service, two_ranks: Json) -> None:
    assert (two_ranks["status"], two_ranks["error"]) == ("succeeded", None)
    assert two_ranks["end_reason"] in ("completed", "early_stopped")
    assert two_ranks["summary"]["val_accuracy"] >= 0.95
    plan = two_ranks["plan"]
    assert (plan["global_batch"], plan["steps_per_epoch"], two_ranks["attempt"]) == (128, 10, 1)
    history = kinds(client, two_ranks["id"])
    assert history[:3] == ["submitted", "placed", "launched"]
    assert history[-2:] == ["attempt_ended", "ended"]
    assert history.count("rank_started") == 2
    assert history.count("first_step") == 1
    assert history.count("epoch_ended") == two_ranks["summary"]["epochs_run"]
    assert "checkpoint_saved" in history
    no_process_left(client, two_ranks["id"])


def test_every_step_is_stored_and_the_summary_agrees_with_the_curves(client: Service, two_ranks: Json) -> None:
    steps = two_ranks["summary"]["epochs_run"] * two_ranks["plan"]["steps_per_epoch"]
    for rank in (0, 1):
        assert list(points(client, two_ranks["id"], "loss", axis="step", rank=rank)) == list(range(1, steps + 1))
    summary, losses = two_ranks["summary"], points(client, two_ranks["id"], "loss")
    assert losses[1] > 2 * losses[summary["best_epoch"]]
    assert points(client, two_ranks["id"], "val_accuracy")[summary["best_epoch"]] == summary["val_accuracy"]
    assert max(points(client, two_ranks["id"], "val_accuracy").values()) - summary["val_accuracy"] <= 0.001
    named = {f"{part}_{name}" for part in ("val", "test") for name in ("loss", "accuracy", "top5")}
    assert summary["metrics"].keys() >= {"loss", "accuracy"} | named
    rates = points(client, two_ranks["id"], "learning_rate")
    assert list(rates.values()) == pytest.approx([two_ranks["plan"]["learning_rate"]] * len(rates))
    lines = client.logs(two_ranks["id"])["items"]
    assert {0, 1} <= {line["rank"] for line in lines}
    assert client.logs(two_ranks["id"], rank=1, tail=1)["items"] == [[x for x in lines if x["rank"] == 1][-1]]


def test_tensorboard_shows_the_same_curves(client: Service, two_ranks: Json, tmp_path: Path) -> None:
    client.download_artifacts(two_ranks["id"], tmp_path)
    folder, job_id = tmp_path / "tensorboard", two_ranks["id"]
    for run, tag, name in (
        ("train", "epoch_loss", "loss"), ("train", "epoch_accuracy", "accuracy"),
        ("train", "epoch_learning_rate", "learning_rate"), ("train", "samples_per_s", "samples_per_s"),
        ("validation", "epoch_loss", "val_loss"), ("validation", "epoch_accuracy", "val_accuracy"),
    ):  # fmt: skip
        assert dict(event_points(folder / run, tag)) == pytest.approx(points(client, job_id, name), rel=1e-6)
    for tag, name in (("batch_loss", "loss"), ("batch_accuracy", "accuracy"), ("step_time_s", "step_time_s")):
        expected = points(client, job_id, name, axis="step", rank=0)
        assert dict(event_points(folder / "steps", tag)) == pytest.approx(expected, rel=1e-6)
    ((epoch, accuracy),) = event_points(folder / "test", "epoch_accuracy")
    summary = two_ranks["summary"]
    assert (epoch, accuracy) == (summary["best_epoch"], pytest.approx(summary["test_accuracy"]))
