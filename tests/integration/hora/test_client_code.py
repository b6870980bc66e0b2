"""`client.code` and the ends of `client.jobs.run` that need no ranks, against a whole stack."""

from pathlib import Path
from time import sleep

import pytest

from hora import Client, HoraError, NotFound, ProblemError, WaitTimeout
from hora.stack.control import Stack
from jobs.model.states import Status


def test_code_is_sent_once_described_and_fetched(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)")
    (folder / "lib/run.sh").write_text("#!/bin/sh")
    (folder / "lib/run.sh").chmod(0o755)
    (folder / ".gitignore").write_text("*.bin")
    (folder / "left-out.bin").write_text("")
    told: list[int] = []
    with Client(stack.url, stack.token) as client:
        code = client.code.send(folder, on_bytes=told.append)
        assert [file.path for file in code.files] == [".gitignore", "lib/run.sh", "train.py"]
        assert told[-1] == code.size_bytes
        told.clear()
        again = client.code.send(str(folder), on_bytes=told.append)
        assert (again, told) == (code, [])
        assert client.code.get(code.digest) == code
        fetched = client.code.download(code.digest, tmp_path / "new/fetched")
        assert (fetched / "train.py").read_text() == "print(1)"
        assert (fetched / "lib/run.sh").stat().st_mode & 0o777 == 0o700
        with pytest.raises(HoraError, match="is there already"):
            client.code.download(code.digest, folder)
        with pytest.raises(NotFound):
            client.code.download("0" * 64, tmp_path / "unknown")
        assert not (tmp_path / "unknown").exists()


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
