"""The table of sampled metrics against the columns of the database, the readings of the samplers and the API."""

from dataclasses import fields
from typing import get_args

import pytest
from sqlalchemy import Table

from api.routes.hosts import HostMetric
from api.routes.series import SampleMetric
from jobs.db.tables import HostSample, Sample
from jobs.telemetry.ingest import HostSampleRow, SampleRow
from jobs.telemetry.sampled_metrics import GPU_METRICS, HOST_METRICS, METRIC_NAMES, SAMPLED_METRICS, SLOT_METRICS
from worker.host.gpus import GpuReading
from worker.sampling.host_readings import HostReading
from worker.sampling.rank_processes import RankReading


@pytest.mark.parametrize(
    ("table", "row", "metrics"),
    [(Sample.__table__, SampleRow, SLOT_METRICS), (HostSample.__table__, HostSampleRow, HOST_METRICS)],
    ids=["slots", "hosts"],
)
def test_every_metric_has_a_nullable_column(table: Table, row: type, metrics: dict[str, object]) -> None:
    *key, values = row._fields  # type: ignore[attr-defined]
    assert values == "values"
    assert [column.name for column in table.columns] == [*key, *metrics]
    assert {name for name in metrics if not table.columns[name].nullable} == set()


def test_samplers_read_every_metric_and_no_other() -> None:
    assert {metric.reading_name for metric in GPU_METRICS.values()} == {
        field.name for field in fields(GpuReading) if field.name != "is_lost"
    }
    assert {field.name for field in fields(RankReading)} == SLOT_METRICS.keys() - GPU_METRICS.keys()
    assert set(HostReading._fields) == HOST_METRICS.keys()


def test_api_accepts_every_metric() -> None:
    assert get_args(SampleMetric) == METRIC_NAMES
    assert get_args(HostMetric) == tuple(HOST_METRICS)


def test_exported_metric_names_are_unique() -> None:
    exported = [one.name for metric in SAMPLED_METRICS for one in (metric.gauge, metric.mirrored) if one is not None]
    assert len(exported) == len(set(exported))
