"""A round in which users share the slots: their jobs have one priority, and preempt each other by fair shares.

All jobs of a kind have the same spec. One of each kind trains before the disturbances. The others must end with the
same figures, to the last digit, however often they were preempted and killed.
"""

import random
from collections.abc import Mapping, Sequence

import psycopg

from hora.service import Json, Service
from tests.chaos import verdict
from tests.chaos.people import Person
from tests.chaos.script import Harm, PlannedJob, Script, disturbances_of
from tests.waiting import until

SETTINGS = {"HORA_QUEUE_QUANTUM_S": "3"}
SLOTS = (2, 2)  # alike, because losses depend on the threads of a rank in the last digits, and these on the host
_OWNERS = ("ann", "ben", "cara")
_KINDS = (("mlp", 1), ("lenet5", 1), ("lenet5", 2))  # models and GPUs; the site has slots for one of each
_EPOCHS = 100  # a job trains for longer than an attempt is left alone, also if faults delay the dispatcher
_FIGURES = ("loss", "accuracy", "val_loss", "val_accuracy")

# The service leaves an attempt alone for ten times as long as it took to begin to train. That is two minutes on two
# busy cores, because each rank imports TensorFlow, and longer than a job trains on quiet ones. With these rows it is
# twice the time of the launch, which grows as the time of an epoch does.
_SHORT_BEGINNING = """
CREATE FUNCTION chaos_short_beginning() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.setup := '{}';
  IF OLD.started_at IS NULL THEN
    NEW.started_at := NEW.created_at + (NEW.started_at - NEW.created_at) / 5;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_short_beginning BEFORE UPDATE ON attempts
  FOR EACH ROW EXECUTE FUNCTION chaos_short_beginning();
"""


def shares_script_of(seed: int, *, jobs: int, disturbances: int, harms: Sequence[Harm]) -> Script:
    """The round of a seed. The first user submits half of the jobs at once, the others theirs a little later."""
    dice = random.Random(seed)  # noqa: S311 - the same seed must give the same draws
    planned = []
    for number in range(jobs):
        is_early = number < jobs // 2
        owner = _OWNERS[0] if is_early else _OWNERS[1 + number % 2]
        at = 0.0 if is_early else dice.uniform(0.02, 0.3)
        planned.append(PlannedJob(number, at, _spec(f"chaos-{number:02d}", *dice.choice(_KINDS)), owner=owner))
    return Script(seed, tuple(planned), disturbances_of(dice, disturbances, harms))


def _spec(name: str, model: str, gpus: int) -> Json:
    return {
        "name": name, "dataset": "digits", "model": model, "batch_size": 8, "learning_rate": 0.001, "gpus": gpus,
        "epochs": _EPOCHS, "early_stopping": None, "max_restarts": 100, "stall_timeout_s": 30,
    }  # fmt: skip


def make_room_soon(connection: psycopg.Connection) -> None:
    """Let attempts make room some seconds after their start."""
    connection.execute(_SHORT_BEGINNING)


class Undisturbed:
    """A job of each kind that nothing disturbs. Returns when they have ended."""

    def __init__(self, client: Service) -> None:
        self._client = client
        self._jobs = {kind: client.submit(_spec(f"undisturbed-{kind[0]}-{kind[1]}", *kind))["id"] for kind in _KINDS}
        for job_id in self._jobs.values():
            until(lambda job_id=job_id: client.job(job_id)["ended_at"], what=f"the end of {job_id}")

    @property
    def job_ids(self) -> set[str]:
        """These jobs."""
        return set(self._jobs.values())

    def losses(self, people: Sequence[Person], jobs: Mapping[str, Json]) -> list[str]:
        """What jobs have lost: an attempt, or a figure that the undisturbed job has."""
        sentences = []
        figures = {kind: self._figures(self._client.job(job_id)) for kind, job_id in self._jobs.items()}
        for person in people:
            job = jobs.get(person.job_id or "")
            if job is not None and job["status"] == "succeeded":
                name, kind = person.planned.name, person.planned.kind
                sentences += verdict.lost_attempts(name, job, self._client.attempts(job["id"]))
                sentences += verdict.different_figures(name, self._figures(job), figures[kind])
        return sentences

    def _figures(self, job: Json) -> dict[str, object]:
        """What it learned: the figures of each epoch, and the last and best ones, also of the final weights."""
        series = self._client.metrics(job["id"], name=_FIGURES, rank=-1, axis="epoch")
        of_epochs = {
            f"{one['name']} of epoch {x}": y for one in series for x, y in zip(one["x"], one["y"], strict=True)
        }
        return of_epochs | {f"{name} at the end": figure for name, figure in job["metrics"].items()}


def turns(client: Service, people: Sequence[Person]) -> list[str]:
    """Each preemption by fair shares: which attempt made room for which job of another user."""
    planned = {person.job_id: person.planned for person in people}
    return [
        f"{person.planned.name}.{attempt['number']} of {person.planned.owner} for {other.name} of {other.owner}"
        for person in people
        for attempt in client.attempts(person.job_id or "")
        if (other := planned.get((attempt["preemption"] or {}).get("job"))) is not None
    ]
