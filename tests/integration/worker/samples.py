"""The rows that a sampler stores, and the records of steps that it reads. For its tests."""

from collections.abc import Callable

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import HostSample, Sample
from jobs.model.records import StepEnded
from worker.sampling.sampler import Sampler

MakeSampler = Callable[..., Sampler]


def stored_samples(sessions: Sessions) -> list[Sample]:
    with sessions() as session:
        return list(session.scalars(select(Sample).order_by(Sample.at, Sample.rank)))


def stored_host_samples(sessions: Sessions) -> list[HostSample]:
    with sessions() as session:
        return list(session.scalars(select(HostSample).order_by(HostSample.at)))


def step_line(step: int, epoch: int = 1) -> str:
    """The line that a rank writes after a step."""
    times = {"step_time_s": 1.0, "data_wait_s": 0.0, "allreduce_s": 0.0, "samples_per_s": 1.0}
    return StepEnded(at=0, step=step, epoch=epoch, **times, metrics={"loss": 1}).model_dump_json() + "\n"
