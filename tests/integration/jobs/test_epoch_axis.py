"""The axis of epochs: where epochs end, how that is read, and what is not on it."""

from pathlib import Path
from typing import Any

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.telemetry.axes import epoch_scales
from jobs.telemetry.series import MetricSeries, metrics, metrics_of_jobs
from tests.integration.api.starting_rows import metric_points
from tests.integration.jobs.job_rows import a_host, a_job
from tests.integration.script_runs import regression, reported, run, script_of


def a_script(sessions: Sessions, folder: Path, reports: list[Any]) -> str:
    """The id of a script that reported this."""
    spec = spec_from(script_of(sessions))
    with sessions.begin() as session:
        job_id = write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="me").id
    run(sessions, job_id, folder, reports)
    return job_id


def on_epochs(sessions: Sessions, job_id: str, *names: str) -> list[MetricSeries]:
    with sessions() as session:
        job = session.get_one(Job, job_id)
        return metrics(session, job, names=names, axis="epoch")


def test_steps_of_a_script_without_epochs_are_not_on_the_axis_of_epochs(sessions: Sessions, tmp_path: Path) -> None:
    a_host(sessions)
    steps = [reported(1e9 + step, step=step, loss=1 / step) for step in range(1, 201)]
    without_epochs = a_script(sessions, tmp_path / "a", steps)
    with_epochs = a_script(sessions, tmp_path / "b", regression([0.5, 0.4]))
    assert on_epochs(sessions, without_epochs, "loss") == []
    assert [one.x for one in on_epochs(sessions, with_epochs, "mae")] == [[0.25 * step for step in range(1, 9)]]
    with sessions() as session:
        jobs = [session.get_one(Job, job_id) for job_id in (without_epochs, with_epochs)]
        of_both = metrics_of_jobs(session, jobs, names=["loss", "mae"], ranks=[], axis="epoch")
    assert {job_id: len(series) for job_id, series in of_both.items()} == {without_epochs: 0, with_epochs: 1}


def test_scales_of_scripts_and_other_jobs_are_read_together(sessions: Sessions, tmp_path: Path) -> None:
    a_host(sessions)
    script, own = a_script(sessions, tmp_path, regression([0.5, 0.4, 0.3], steps=7)), a_job(sessions)
    metric_points(sessions, own, [(4, 0.5), (8, 0.4)], rank=-1)
    metric_points(sessions, own, [(99, 0.5)], rank=-1, name="val_loss")  # does not count
    with sessions() as session:
        scales = epoch_scales(session, [session.get_one(Job, job_id) for job_id in (own, script)])
    ends = {job_id: scale.ends.tolist()[:-1] for job_id, scale in scales.items() if scale is not None}
    assert ends == {own: [0, 4, 8], script: [0, 7, 14, 21]}
