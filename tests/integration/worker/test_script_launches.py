"""The code of a script comes from the database to its host, and what a launcher says if it cannot be started."""

import os
from pathlib import Path
from typing import Any

import pytest

from jobs.db.engine import Sessions
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from tests.integration.jobs import code_rows, job_rows
from worker.attempt.launcher import Launcher
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.script_launch import PreparedScript, memory_of_ranks, prepare_script

FILES = {"train.py": b"print('hi')\n", "lib/data.bin": os.urandom(250_000)}


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, code="on", host_name="ha", data_roots=str(tmp_path / "data"), restart_backoff_s=99)


def prepared(sessions: Sessions, config: Settings, hosts: list[str]) -> tuple[AttemptPaths, PreparedScript]:
    digest = code_rows.an_archive(sessions, code_rows.packed(FILES))
    spec = spec_from({"code": digest, "command": ["python", "train.py", "{batch_size}"], "batch_size": 64, "gpus": 2})
    paths = paths_of(config.runs_dir, "j", 1)
    paths.create([0, 1])
    for host in hosts:
        job_rows.a_host(sessions, host)
    prepared = prepare_script(sessions, spec, paths, config, hosts=hosts, gpus=2, uploaded=False, source=None)
    return paths, prepared


def test_the_code_of_a_job_is_unpacked_and_its_library_linked(sessions: Sessions, config: Settings) -> None:
    paths, script = prepared(sessions, config, ["ha"])
    launch = script.launch
    assert launch is not None
    assert launch.command == ["python", "train.py", "64"]
    assert {name: (Path(launch.code_dir) / name).read_bytes() for name in FILES} == FILES
    assert (Path(launch.lib_dir) / "hora" / "__init__.py").is_file()
    assert os.path.realpath(Path(launch.lib_dir) / "hora") in launch.readable
    assert Path(launch.code_dir).stat().st_mode & 0o777 == (0o700 if launch.user is None else 0o770)
    assert paths.own_checkpoints.is_dir()
    assert (launch.memory_bytes or 0) > 0
    assert not paths.code_archive.exists(), "no other host needs it"
    paths.tidy(launch.user)
    assert not paths.code.exists()
    paths, script = prepared(sessions, config, ["ha", "hb"])
    assert script.of_member("hb").archive_bytes == paths.code_archive.stat().st_size > 250_000
    assert (script.of_member("hb").memory_bytes or 0) > 0


@pytest.mark.parametrize(
    ("content", "digest", "fields", "reason", "said"),
    [
        (b"no archive", None, {}, EndReason.SCRIPT_FAILED, "cannot be unpacked"),
        (b"damaged", "b" * 64, {}, EndReason.SCRIPT_FAILED, "the archive of the code is damaged: its SHA-256 is"),
        (None, None, {"dataset": "nothing/here"}, EndReason.BAD_DATA, "dataset.source: 'nothing/here' is not on this"),
        (None, None, {"environment": "jax"}, EndReason.LAUNCH_FAILED, "host ha has no environment jax"),
    ],
)
def test_what_cannot_be_started_ends_the_attempt_with_a_sentence(
    sessions: Sessions,
    config: Settings,
    content: bytes | None,
    digest: str | None,
    fields: dict[str, Any],
    reason: EndReason,
    said: str,
) -> None:
    archive = code_rows.packed(FILES) if content is None else content
    code = code_rows.an_archive(sessions, archive, digest=digest)
    script = {"code": code, "command": ["python", "train.py", "{batch_size}"], "dataset": None}
    job_rows.a_host(sessions)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, **script | fields))
    assert not Launcher(sessions, config).launch(lease.attempt_id)
    attempt = job_rows.the_attempt(sessions, lease)
    assert attempt.end_reason is reason
    assert said in (attempt.error or "")
    assert str(config.home) not in (attempt.error or "")
    assert job_rows.holders(sessions) == [None, None]


def test_memory_is_divided_among_slots_unless_the_operator_sets_it(sessions: Sessions, config: Settings) -> None:
    job_rows.a_mixed_host(sessions, "hb", cpus=4, memory_bytes=40 * 10**9)
    with sessions() as session:
        assert memory_of_ranks(session, ["hb"], config) == {"hb": 9 * 10**9}
        limited = config.model_copy(update={"max_code_memory_gb": 2.5})
        assert memory_of_ranks(session, ["hb"], limited) == {"hb": 2_500_000_000}
