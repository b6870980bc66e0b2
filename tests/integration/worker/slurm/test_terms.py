"""A job that waits in a real Slurm has the priority and the time limit that its job has now."""

from collections.abc import Mapping

import pytest

from jobs.lifecycle.store import locked_job
from jobs.model.job_changes import changes_from
from jobs.people import job_changes
from jobs.people.project_admission import Applicant
from tests.integration.jobs import job_rows
from tests.integration.worker.slurm.pool_site import Site, occupy
from tests.slurm import Slurm
from worker.slurm import commands
from worker.slurm.commands import SlurmRefused


def told(cluster: Slurm) -> list[tuple[str, ...]]:
    """Nice and time limit of the jobs that wait in Slurm."""
    lines = cluster.run("squeue", "--noheader", "--states=PENDING", "--format=%y|%l").splitlines()
    return [tuple(part.strip() for part in line.split("|")) for line in lines]


def change(site: Site, job_id: str, fields: Mapping[str, object]) -> None:
    with site.sessions.begin() as session:
        by = Applicant("me", is_admin=True)
        assert job_changes.change(session, locked_job(session, job_id), changes_from(fields), by=by)


def test_a_waiting_job_gets_its_new_priority_and_limit_and_keeps_its_number(cluster: Slurm, site: Site) -> None:
    number = occupy()
    job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1, priority=50, time_limit_s=3600)
    before = site.until(job_id, "PENDING")
    assert told(cluster) == [("500", "1:10:00")]
    change(site, job_id, {"priority": 80, "time_limit_s": 7200})
    site.turn()
    assert told(cluster) == [("200", "2:10:00")]
    change(site, job_id, {"priority": 20, "time_limit_s": 60})
    site.turn()
    assert told(cluster) == [("800", "11:00")]
    site.desk.close()  # the worker is away
    change(site, job_id, {"priority": 100, "time_limit_s": None})
    site.restart()
    site.turn()
    nice, limit = told(cluster)[0]
    assert nice == "0"
    assert limit not in ("11:00", "2:10:00")
    commands.cancel(number)
    assert site.until(job_id, "RUNNING").slurm_job == before.slurm_job


def test_slurm_is_told_once_also_of_what_it_refuses(
    cluster: Slurm, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupy()
    job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1, time_limit_s=60)
    site.until(job_id, "PENDING")
    changes: list[tuple[str, int]] = []
    change_in_slurm = commands.change

    def refusing(slurm_job: int, name: str, value: int) -> None:
        changes.append((name, value))
        if name == "TimeLimit":
            raise SlurmRefused("Access/permission denied")
        change_in_slurm(slurm_job, name, value)

    monkeypatch.setattr(commands, "change", refusing)
    site.turn()
    assert changes == []  # `sbatch` said it
    change(site, job_id, {"priority": 70, "time_limit_s": 600, "name": "other"})
    for _ in range(3):
        site.turn()
    assert changes == [("Nice", 300), ("TimeLimit", 20)]
    assert told(cluster) == [("300", "11:00")]


def test_an_option_of_the_operator_wins(cluster: Slurm, site: Site) -> None:
    site.desk.close()
    site.settings = site.settings.model_copy(update={"slurm_args": "--nice=7 --time=33"})
    site.restart()
    occupy()
    job_id = job_rows.a_job(site.sessions, device="cpu", gpus=1)
    site.until(job_id, "PENDING")
    change(site, job_id, {"priority": 90, "time_limit_s": 60})
    site.turn()
    assert told(cluster) == [("7", "33:00")]
