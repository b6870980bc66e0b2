"""The ends of `client.jobs.run` that need no ranks, against a whole stack. docs/client.md shows the others."""

from time import sleep

import pytest

from hora import Client, ProblemError, WaitTimeout
from hora.stack.control import Stack
from jobs.model.states import Status


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
