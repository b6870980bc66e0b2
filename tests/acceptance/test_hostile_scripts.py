"""Scripts that attack what they run beside: each is held, and the stack works on.

A script exits with 3 if it got what it must not get. `tests/integration/trainer/test_script_confinement.py` tries more.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import Json, ended, no_process_left
from tests.acceptance.test_scripts import submitted
from worker.job_folders import remove_folders

SECRET = "correct horse battery"
MEMORY_GB, STORAGE_GB = 0.4, 0.05
TRIES = """
import os, socket
from hora import run
def reached(what):
    print("REACHED", what, flush=True)
    os._exit(3)
def tries(function, *args):
    try:
        return function(*args)
    except OSError:
        return None
def read(path):
    with open(path, "rb") as file:
        return file.read(1_000_000)
home = run.params["home"]
"""
READS_PROCESSES = """
for name in os.listdir("/proc"):
    if name.isdigit() and run.params["secret"].encode() in (tries(read, f"/proc/{name}/environ") or b""):
        reached(name)
"""
READS_THE_HOME = """
for path in ("token", "url", "state.json", "logs/api.log", "ssh", "postgres/PG_VERSION", "run"):
    if tries(read, f"{home}/{path}") or tries(os.listdir, f"{home}/{path}"):
        reached(path)
"""
CONNECTS = """
for folder, _, names in os.walk(home):
    for name in names:
        with socket.socket(socket.AF_UNIX) as connection:
            if tries(connection.connect, os.path.join(folder, name)) is None and connection.fileno() >= 0:
                try:
                    connection.getpeername()
                    reached(name)
                except OSError:
                    pass
for path in run.params["sockets"]:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            reached(path)
        except OSError:
            pass
"""
READS_OTHER_JOBS = """
other = run.params["other"]
for path in (other, f"{other}/artifacts", f"{other}/artifacts/model.txt", f"{other}/attempt-1/launch"):
    if tries(read, path) or tries(os.listdir, path):
        reached(path)
if tries(os.listdir, os.path.dirname(other)) not in (None, [run.artifacts.parent.name]):
    reached("the list of jobs")
"""
FORGES_RECORDS = """
attempt = os.path.dirname(os.getcwd())
assert os.path.basename(attempt) == "attempt-1", attempt
for path in ("records/rank-0.jsonl", "records/rank-0.note", "stop", "lease", "launch/localhost.json"):
    try:
        with open(f"{attempt}/{path}", "ab") as file:
            file.write(b'{"kind": "exit", "at": 0, "reason": "completed", "message": null}' + bytes([10]))
        reached(path)
    except OSError:
        pass
"""
FILLS_MEMORY = """
kept = []
while True:
    kept.append(bytearray(os.urandom(1) * 20_000_000))
"""
FILLS_THE_LOG = """
while True:
    print("all work and no play " * 50)
"""
DIGS_DEEP = """
deep = run.artifacts / "deep"
deep.mkdir()
os.chdir(deep)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.chmod(deep, 0)
os.chdir(os.environ["HOME"])
os.mkdir("closed")
os.chmod("closed", 0)
"""
LIES = """
channel = os.open(run.given.values["channel"], os.O_WRONLY)
for line in (b"[" * 100_000, b"{}", b'{"kind": "exit", "at": 0, "reason": "completed"}', b"\\xff\\x00",
             b'{"kind": "report", "at": 1e999, "metrics": {"a": 1.0}}',
             b'{"kind": "report", "at": 1, "metrics": {"a; drop": 1.0}}'):
    for _ in range(200):
        os.write(channel, line[:60_000] + b"\\n")
run.report(step=2, true=1)
"""


@pytest.fixture(scope="module")
def stack(session_folder: Path) -> Iterator[Stack]:
    """A stack that runs the code of its users, with small limits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORA_CODE", "on")
        patch.setenv("HORA_MAX_CODE_MEMORY_GB", str(MEMORY_GB))
        patch.setenv("HORA_MAX_CODE_STORAGE_GB", str(STORAGE_GB))
        patch.setenv("NOTHING_OF_HORA", SECRET)  # in the environment of the worker and the api
        with Stack(session_folder / "hostile", port=0, slots=2) as stack:
            yield stack


@pytest.fixture(scope="module")
def person(stack: Stack) -> Iterator[Service]:
    with Service(stack.url, stack.token) as client:
        yield client


def run_to_its_end(stack: Stack, person: Service, attack: str, **params: object) -> Json:
    """The job of one rank that attacks, after its end."""
    known = {"home": str(stack.home), "secret": SECRET, **params}
    fields = {"gpus": 1, "max_restarts": 0, "command": ["python", "train.py"], "goal": None}
    job = ended(person, submitted(stack, script=TRIES + attack, params=known, **fields))
    log = "\n".join(line["text"] for line in person.logs(job["id"])["items"])
    assert "REACHED" not in log, log
    no_process_left(person, job["id"])
    left = stack.home / "runs" / job["id"] / "attempt-1"
    assert not (left / "code").exists()
    assert not (left / "tmp").exists()
    return job


def test_a_script_reaches_nothing_and_hurts_only_itself(stack: Stack, person: Service) -> None:
    sockets = [str(path) for path in (stack.home / "run").rglob("*") if path.is_socket()]
    assert len(sockets) >= 2  # of the database and the broker
    other = ended(person, submitted(stack, params={"pace_s": 0}))
    folder = stack.home / "runs" / other["id"]
    assert (folder / "artifacts" / "model.txt").exists()
    reads = READS_PROCESSES + READS_THE_HOME + CONNECTS + READS_OTHER_JOBS
    harms = FORGES_RECORDS + LIES + DIGS_DEEP
    job = run_to_its_end(stack, person, reads + harms, sockets=sockets, other=str(folder))
    assert (job["status"], job["end_reason"], job["error"]) == ("succeeded", "completed", None)
    assert set(job["metrics"]) == {"true"}
    assert remove_folders(stack.home / "runs" / job["id"], re.compile("artifacts"))  # however deep they are
    assert not (stack.home / "runs" / job["id"] / "artifacts").exists()


@pytest.mark.parametrize(
    ("attack", "reason", "says"),
    [
        (FILLS_MEMORY, "out_of_memory", "HORA_MAX_CODE_MEMORY_GB"),
        # Its rank ends it, or the kernel does.
        (FILLS_THE_LOG, "script_failed", "HORA_MAX_CODE_STORAGE_GB|SIGXFSZ|File too large"),
    ],
    ids=["memory", "log"],
)
def test_memory_and_space_have_a_limit(stack: Stack, person: Service, attack: str, reason: str, says: str) -> None:
    job = run_to_its_end(stack, person, attack)
    assert (job["status"], job["end_reason"]) == ("failed", reason)
    assert re.search(says, job["error"])
    used = sum(path.lstat().st_size for path in (stack.home / "runs" / job["id"]).rglob("*"))
    assert used < 4e9 * STORAGE_GB
