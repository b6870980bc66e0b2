"""`client.jobs.import_run`, against a whole stack."""

from pathlib import Path

import pytest

from hora import Client, HoraError, ProblemError
from hora.stack.control import Stack
from jobs.model.states import Status
from tests.runs import RUN_ID, run_folder


def test_a_run_is_sent_once_and_becomes_a_job(stack: Stack, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    told: list[int] = []
    with Client(stack.url, stack.token) as client:
        with pytest.raises(ProblemError) as refused:
            client.jobs.import_run(folder, project="nosuch")
        assert [error["field"] for error in refused.value.errors] == ["project"]
        job = client.jobs.import_run(folder, on_bytes=told.append)
        assert (job.run_id, job.status, job.summary and job.summary.val_accuracy) == (RUN_ID, Status.SUCCEEDED, 0.75)
        assert told[-1] > 0
        assert client.jobs.import_run(str(folder)).id == job.id
        with pytest.raises(HoraError, match="cannot be read"):
            client.jobs.import_run(tmp_path / "nothing")
