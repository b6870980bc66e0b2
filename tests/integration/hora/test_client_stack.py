"""Ends of `client.jobs.run` that need no ranks, and imports, against a whole stack. docs/client.md shows the others."""

from pathlib import Path
from time import sleep

import pytest

from hora import Client, HoraError, ProblemError, WaitTimeout
from hora.stack.control import Stack
from jobs.model.states import Status
from tests.runs import RUN_ID, run_folder


def test_a_call_that_is_refused_or_takes_too_long(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(stack.url, stack.token) as client:
        with pytest.raises(ProblemError) as refused:
            client.jobs.run(print, gpus=0, model="mlp")
        assert {error["field"] for error in refused.value.errors} == {"gpus", "model"}
        with pytest.raises(WaitTimeout) as waited:
            client.jobs.run(print, gpus=2, timeout_s=0, labels={"call": "late"})
        job = client.jobs.get(waited.value.seen["id"])
        assert (job.name, job.gpus, job.spec["labels"]) == ("print", 2, {"call": "late"})
        job.cancel().wait(timeout_s=120)

        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(type(client.jobs), "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.jobs.run(sleep, args=(600,), labels={"call": "interrupted"})
        monkeypatch.undo()
        (interrupted,) = client.jobs.list(label="call:interrupted")
        assert interrupted.wait(timeout_s=120).status == Status.CANCELLED


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
