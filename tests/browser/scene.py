"""The jobs of a team: jobs of several people that ended in different ways, a study, a running job and waiting jobs.

The screenshots show all of it. The browser tests use a few parts, or all of it with shorter jobs.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hora.service import Service
from hora.service.code_folders import code_folder
from hora.service.sending_code import send_code
from tests.archives import chips, zip_of
from tests.browser.views import VIEWS
from tests.unhurried import MODEL
from tests.waiting import until

Json = dict[str, Any]

_DIGITS = {"dataset": "digits", "batch_size": 32, "learning_rate": 0.001, "gpus": 1, "epochs": 12}
_NO_EARLY_STOP: Json = {"early_stopping": None}
_BASELINE = {"purpose": "baseline", "paper": "digits-2024"}
_TUNING = {"purpose": "tuning"}
JOBS: tuple[tuple[str, Json], ...] = (
    ("ada", {"name": "lenet5 on two", "model": "lenet5", "gpus": 2, "epochs": 40, "learning_rate": 0.0002,
             "labels": _BASELINE, **_NO_EARLY_STOP}),
    ("ada", {"name": "mlp b32", "model": "mlp", "labels": _BASELINE, "project": "vision"}),
    ("ada", {"name": "mlp b128", "model": "mlp", "batch_size": 128, "learning_rate": 0.004, "labels": _TUNING}),
    ("grace", {"name": "mlp sgd", "model": "mlp", "optimizer": "sgd", "learning_rate": 0.05, "labels": _TUNING}),
    ("grace", {"name": "mlp dropout", "model": {"name": "mlp", "dropout": 0.4}, "epochs": 20, "project": "vision"}),
    ("grace", {"name": "few samples - many epochs", "model": "mlp", "dataset": {"source": "digits", "fraction": 0.1},
               "learning_rate": 0.01, "epochs": 120, "labels": {"purpose": "question"}, **_NO_EARLY_STOP}),
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
ENDLESS: Json = {**_DIGITS, "name": "long run", "model": "lenet5", "batch_size": 8, "epochs": 100_000, **_NO_EARLY_STOP}
STUDY: Json = {
    "name": "digits scaling",
    "base": {"dataset": "digits", "model": "mlp", "learning_rate": 0.002, "epochs": 8, "early_stopping": None},
    "grid": {"gpus": [1, 2], "batch_size": [32, 128]},
    "repeats": 3,
    "note": "Does a second rank pay on data this small?",
}
_RESTARTED: Json = {
    **ENDLESS, "name": "mlp on two - restarted", "model": "mlp", "gpus": 2, "epochs": 60, "labels": {"purpose": "soak"},
}  # fmt: skip
_CANCELLED: Json = {**ENDLESS, "name": "wrong labels", "learning_rate": 0.0001, "labels": _TUNING}
_BRIEF_ENDLESS: Json = {**ENDLESS, "model": MODEL}
_BRIEF_STUDY: Json = {**STUDY, "base": {**STUDY["base"], "epochs": 2}, "repeats": 1}
KEEPS = """\
import numpy as np
from hora import run

random = np.random.default_rng(seed=3)
for step in (100, 200, 300):
    truth = random.integers(0, 4, 500)
    scores = np.eye(4)[truth] * step / 900 + random.random((500, 4))
    run.image("val/samples", random.random((24, 72, 3)) * step / 300, step=step, caption=f"made up at step {step}")
    run.histogram("weights/dense", random.normal(scale=step, size=4000), step=step)
    run.confusion_matrix("val/confusion", truth, scores, labels=["cat", "dog", "emu", "fox"], step=step)
    run.roc("val/roc", truth, scores, step=step, labels=["cat", "dog", "emu", "fox"])
    run.report(step=step, loss=1 / step)
run.table("val/worst", ["file", "truth", "predicted", "loss"], [[f"{n}.png", "cat", "fox", 9.5 - n] for n in range(8)])
run.audio("tone", np.sin(np.arange(800) / 4), rate=8000)
"""
ARTICLE = """\
Larger batches were **faster** and no less accurate:

```hora
chart: val_accuracy
study: {study}
group: batch
```

```hora
table: name, batch, rate, metrics.val_accuracy
filter: label=purpose:tuning
```
"""


@dataclass(frozen=True)
class Team:
    """The connections of a team: an admin and two users."""

    admin: Service
    ada: Service
    grace: Service

    def of(self, name: str) -> Service:
        """The connection of a user."""
        connection: Service = getattr(self, name)
        return connection


@contextmanager
def team_at(url: str, token: str) -> Iterator[Team]:
    """Create the team of a new stack, and its projects: `vision`, and `night`, which may use one slot."""
    with ExitStack() as connections:
        admin = connections.enter_context(Service(url, token))
        admin.create_project({"name": "vision", "description": "Classifiers for the line cameras", "is_open": True})
        admin.create_project({"name": "night", "description": "Jobs that may run until morning", "max_slots": 1})
        tokens = {user: admin.create_token("laptop", user=user)["token"] for user in ("ada", "grace")}
        users = {user: connections.enter_context(Service(url, text)) for user, text in tokens.items()}
        yield Team(admin, **users)


def fill(team: Team, *, briefly: bool = False) -> None:
    """Submit everything. `briefly`: only what the views name, with few epochs, on a stack with the unhurried network.

    The endless jobs come last: until then both slots are needed.
    """
    jobs = [(who, {**_DIGITS, **spec}) for who, spec in (*JOBS, ("ada", DIVERGES), ("ada", BAD_DATA))]
    if briefly:
        paths = " ".join(view.path for view in VIEWS.values())
        jobs = [(who, {**spec, "epochs": 2}) for who, spec in jobs if f"{{{spec['name']}}}" in paths]
    study = team.ada.submit_study(_BRIEF_STUDY if briefly else STUDY)["id"]
    submitted = [team.of(who).submit(spec)["id"] for who, spec in jobs]
    restarted = team.grace.submit({**_RESTARTED, "epochs": 12} if briefly else _RESTARTED)["id"]
    submitted.append(add_script(team))
    dataset = add_dataset(team)
    lose_a_rank(team.grace, restarted, epochs=2 if briefly else 20)
    if not briefly:
        submitted.append(team.grace.submit(_CANCELLED)["id"])
        cancel_when_it_trains(team.grace, submitted[-1])
    for job_id in (*submitted, restarted):
        team.admin.wait(job_id, timeout_s=300)
    team.ada.wait_study(study, timeout_s=300)
    team.ada.note_study(study, "It does not: two ranks take longer for the same epochs. Next: larger images.")
    team.ada.wait_dataset("chips", dataset, timeout_s=300)
    add_texts(team, study)
    keep_busy(team, _BRIEF_ENDLESS if briefly else ENDLESS)


def add_script(team: Team) -> str:
    """Submit a script that keeps pictures, tables and curves. The stack must run code. Returns the job's id."""
    with TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(KEEPS)
        code = send_code(team.admin, code_folder(Path(folder)))["digest"]
    spec = {"name": "what it saw", "code": code, "command": ["python", "train.py"], "gpus": 1}
    job_id: str = team.admin.submit(spec)["id"]
    return job_id


def add_dataset(team: Team) -> int:
    """Upload a dataset of small images. Returns its version."""
    archive = zip_of(chips())
    upload = team.ada.start_upload(filename="chips.zip", size_bytes=len(archive))["id"]
    team.ada.send_piece(upload, 0, archive)
    version: int = team.ada.register_dataset({"name": "chips", "upload": upload})["version"]
    return version


def add_texts(team: Team, study: str) -> None:
    """An article, a saved view, and a webhook with a delivery."""
    team.admin.create_article("Which batch size?", ARTICLE.format(study=study))
    team.admin.create_view("Baselines", {"filter": {"label": ["purpose:baseline"]}})
    webhook = team.admin.create_webhook("https://ci.example.com/hooks/hora")["id"]
    team.admin.test_webhook(webhook)


def keep_busy(team: Team, endless: Json = ENDLESS) -> Json:
    """Submit a job that runs for hours on one slot, one that waits because of its quota, and one that is paused."""
    runs = team.ada.submit({**endless, "project": "night", "labels": {"purpose": "soak"}})
    wait_for_epochs(team.ada, runs["id"], epochs=1)
    team.grace.submit({**endless, "name": "next night", "project": "night", "priority": 60})
    waits = team.grace.submit({**endless, "name": "larger batch later", "batch_size": 512, "project": "night"})
    team.grace.pause(waits["id"])
    return runs


def lose_a_rank(service: Service, job_id: str, *, epochs: int) -> None:
    """Kill a rank of the job after some checkpoints, so that the job restarts from the last one."""
    wait_for_epochs(service, job_id, epochs=epochs)
    started = [event for event in service.events(job_id) if event["kind"] == "rank_started"]
    os.kill(started[-1]["data"]["pid"], signal.SIGKILL)


def cancel_when_it_trains(service: Service, job_id: str) -> None:
    """Cancel the job some epochs after its start."""
    wait_for_epochs(service, job_id, epochs=10)
    service.cancel(job_id)


def wait_for_epochs(service: Service, job_id: str, *, epochs: int, within_s: float = 400) -> None:
    """Wait until the job has trained this many epochs."""

    def far_enough() -> bool:
        job = service.job(job_id)
        assert job["ended_at"] is None, job
        return (job["progress"] or {}).get("epoch", 0) > epochs

    until(far_enough, within_s=within_s, what=f"epoch {epochs} of {job_id}")
