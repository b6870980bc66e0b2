"""What a team has on its stack: jobs of several people that ended in all ways, a study, one that runs, ones that wait.

`python -m tests.browser.scene URL TOKEN` fills a fresh stack of this machine with two CPU slots, in some three minutes.
The screenshots look at all of it, the browser tests at the few parts that they ask for.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from hora.service import Service
from tests.waiting import until

Json = dict[str, Any]

_DIGITS = {"dataset": "digits", "batch_size": 32, "learning_rate": 0.001, "gpus": 1, "epochs": 12}
_TO_THE_END: Json = {"early_stopping": None}
_BASELINE = {"purpose": "baseline", "paper": "digits-2024"}
_TUNING = {"purpose": "tuning"}
JOBS: tuple[tuple[str, Json], ...] = (
    ("ada", {"name": "lenet5 on two", "model": "lenet5", "gpus": 2, "epochs": 40, "learning_rate": 0.0002,
             "labels": _BASELINE, **_TO_THE_END}),
    ("ada", {"name": "mlp b32", "model": "mlp", "labels": _BASELINE, "project": "vision"}),
    ("ada", {"name": "mlp b128", "model": "mlp", "batch_size": 128, "learning_rate": 0.004, "labels": _TUNING}),
    ("grace", {"name": "mlp sgd", "model": "mlp", "optimizer": "sgd", "learning_rate": 0.05, "labels": _TUNING}),
    ("grace", {"name": "mlp dropout", "model": {"name": "mlp", "dropout": 0.4}, "epochs": 20, "project": "vision"}),
    ("grace", {"name": "few samples - many epochs", "model": "mlp", "dataset": {"source": "digits", "fraction": 0.1},
               "learning_rate": 0.01, "epochs": 120, "labels": {"purpose": "question"}, **_TO_THE_END}),
    ("grace", {"name": "lenet5 half precision", "model": "lenet5", "precision": "mixed_bfloat16", "epochs": 4}),
    ("ada", {"name": "lenet5 linear scaling", "model": "lenet5", "gpus": 2, "batch_size": 64, "lr_scaling": "linear",
             "warmup_epochs": 2, "epochs": 10, "labels": {"purpose": "scaling"}, "project": "vision"}),
    ("ada", {"name": "made-up images", "dataset": "synthetic:samples=2000,classes=4,shape=16x16x3", "epochs": 4}),
    ("grace", {"name": "which batch", "model": "mlp", "probe": {"smallest": 16, "largest": 128, "seconds": 0.5}}),
)  # fmt: skip
BAD_DATA: Json = {
    **_DIGITS, "name": "line camera 3", "labels": {"purpose": "question"},
    "dataset": {"source": "synthetic:samples=2000,classes=4,shape=16x16x3",
                "validation": "synthetic:samples=200,classes=4,shape=8x8x3"},
}  # fmt: skip
DIVERGES: Json = {
    **_DIGITS, "name": "rate too high", "model": "mlp", "optimizer": "sgd", "learning_rate": 1000.0, "labels": _TUNING,
}  # fmt: skip
ENDLESS: Json = {**_DIGITS, "name": "long run", "model": "lenet5", "batch_size": 8, "epochs": 100_000, **_TO_THE_END}
STUDY: Json = {
    "name": "digits scaling",
    "base": {"dataset": "digits", "model": "mlp", "learning_rate": 0.002, "epochs": 8, "early_stopping": None},
    "grid": {"gpus": [1, 2], "batch_size": [32, 128]},
    "repeats": 3,
    "note": "Does a second rank pay on data this small?",
}


@dataclass(frozen=True)
class Team:
    """Connections of those who submit: an admin and two users, members of the project `vision`."""

    admin: Service
    ada: Service
    grace: Service

    def of(self, name: str) -> Service:
        """The connection of one of them."""
        who: Service = getattr(self, name)
        return who


@contextmanager
def team_at(url: str, token: str) -> Iterator[Team]:
    """The team of a fresh stack, and its projects: `vision`, and `night`, which may use one slot."""
    with ExitStack() as connections:
        admin = connections.enter_context(Service(url, token))
        admin.create_project({"name": "vision", "description": "Classifiers for the line cameras", "is_open": True})
        admin.create_project({"name": "night", "description": "What may take until morning", "max_slots": 1})
        tokens = {user: admin.create_token("laptop", user=user)["token"] for user in ("ada", "grace")}
        users = {user: connections.enter_context(Service(url, text)) for user, text in tokens.items()}
        yield Team(admin, **users)


def fill(team: Team) -> None:
    """Everything. What runs on comes last: until then both slots are needed."""
    study = team.ada.submit_study(STUDY)["id"]
    submitted = [team.of(who).submit({**_DIGITS, **spec})["id"] for who, spec in JOBS]
    submitted += [team.ada.submit(spec)["id"] for spec in (DIVERGES, BAD_DATA)]
    restarted, cancelled = (team.grace.submit(spec)["id"] for spec in (_restarted(), _cancelled()))
    lose_a_rank(team.grace, restarted)
    cancel_when_it_trains(team.grace, cancelled)
    for job_id in (*submitted, restarted, cancelled):
        team.admin.wait(job_id, timeout_s=300)
    team.ada.wait_study(study, timeout_s=300)
    team.ada.note_study(study, "It does not: two ranks take longer for the same epochs. Next: larger images.")
    keep_busy(team)


def keep_busy(team: Team) -> Json:
    """A job that runs for hours on one slot, one that its quota keeps waiting, and one that is paused."""
    runs = team.ada.submit({**ENDLESS, "project": "night", "labels": {"purpose": "soak"}})
    trains(team.ada, runs["id"], epochs=1)
    team.grace.submit({**ENDLESS, "name": "next night", "project": "night", "priority": 60})
    waits = team.grace.submit({**ENDLESS, "name": "larger batch later", "batch_size": 512, "project": "night"})
    team.grace.pause(waits["id"])
    return runs


def lose_a_rank(service: Service, job_id: str) -> None:
    """Kill a rank of the job when it has saved something, so that it starts again from there."""
    trains(service, job_id, epochs=20)
    started = [event for event in service.events(job_id) if event["kind"] == "rank_started"]
    os.kill(started[-1]["data"]["pid"], signal.SIGKILL)


def cancel_when_it_trains(service: Service, job_id: str) -> None:
    """Cancel the job some epochs after its start."""
    trains(service, job_id, epochs=10)
    service.cancel(job_id)


def trains(service: Service, job_id: str, *, epochs: int, within_s: float = 400) -> None:
    """Wait until the job has trained so many epochs."""

    def far_enough() -> bool:
        job = service.job(job_id)
        assert job["ended_at"] is None, job
        return (job["progress"] or {}).get("epoch", 0) > epochs

    until(far_enough, within_s=within_s, what=f"epoch {epochs} of {job_id}")


def _restarted() -> Json:
    return {
        **ENDLESS,
        "name": "mlp on two - restarted",
        "model": "mlp",
        "gpus": 2,
        "epochs": 60,
        "labels": {"purpose": "soak"},
    }


def _cancelled() -> Json:
    return {**ENDLESS, "name": "wrong labels", "learning_rate": 0.0001, "labels": _TUNING}


def main(url: str, token: str) -> None:
    """Fill the stack at that address."""
    with team_at(url, token) as team:
        fill(team)


if __name__ == "__main__":
    main(*sys.argv[1:])
