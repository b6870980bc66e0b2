"""The rows that a sampler stores. For its tests."""

from collections.abc import Callable

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import HostSample, Sample
from worker.sampling.sampler import Sampler

MakeSampler = Callable[..., Sampler]


def stored_samples(sessions: Sessions) -> list[Sample]:
    with sessions() as session:
        return list(session.scalars(select(Sample).order_by(Sample.at, Sample.rank)))


def stored_host_samples(sessions: Sessions) -> list[HostSample]:
    with sessions() as session:
        return list(session.scalars(select(HostSample).order_by(HostSample.at)))
