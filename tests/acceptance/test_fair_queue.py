"""Two users share a real stack: an attempt of one makes room for the other after its quantum."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hora.service import Service
from hora.service.code_folders import code_folder
from hora.service.sending_code import send_code
from hora.stack.control import Stack
from tests.acceptance.conftest import Json, ended
from tests.waiting import until

# Saves what it has done after each step, and ends a second after it has done all.
SCRIPT = """
import sys, time
from hora import run

last = run.latest_checkpoint()
done = int((last / "done").read_text()) if last else 0
for step in range(done, int(sys.argv[1])):
    time.sleep(1)
    with run.checkpoint(step + 1) as folder:
        (folder / "done").write_text(str(step + 1))
    print(f"did {step + 1}", flush=True)
    run.report(step=step + 1, done=step + 1)
    if run.should_stop():
        sys.exit(0)
"""


@pytest.fixture(scope="module")
def users(stack: Stack, client: Service) -> Iterator[dict[str, Service]]:
    """Clients of Ann and Ben, by name."""
    with ExitStack() as clients:
        tokens = {name: client.create_token("a test", user=name, scope="code")["token"] for name in ("ann", "ben")}
        yield {name: clients.enter_context(Service(stack.url, token)) for name, token in tokens.items()}


@pytest.fixture(scope="module")
def spec(users: dict[str, Service], tmp_path_factory: pytest.TempPathFactory) -> Json:
    """A spec of the script, which both users have sent."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "count.py").write_text(SCRIPT)
    source = code_folder(folder)
    for user in users.values():
        send_code(user, source)
    return {"code": source.digest, "gpus": 1}


def steps_resumed(user: Service, job_id: str) -> int:
    """The step from which the second attempt went on; 0: it has not said it yet."""
    attempts = user.attempts(job_id)
    return (attempts[1]["resumed_step"] or 0) if len(attempts) > 1 else 0


def done_of(user: Service, job_id: str) -> list[str]:
    """The lines of all attempts about steps that are done."""
    return [line["text"] for line in user.log_lines(job_id, rank=0) if line["text"].startswith("did ")]


def test_an_attempt_beyond_the_share_makes_room_and_loses_nothing(users: dict[str, Service], spec: Json) -> None:
    long = [users["ann"].submit({**spec, "command": ["python", "count.py", "3600"]})["id"] for _ in range(2)]

    def both_saved() -> bool:
        return all((users["ann"].job(job_id)["metrics"].get("done") or {}).get("last", 0) >= 1 for job_id in long)

    until(both_saved, what="a checkpoint of both long jobs")
    short = users["ben"].submit({**spec, "command": ["python", "count.py", "1"]})["id"]
    assert ended(users["ben"], short)["status"] == "succeeded"
    gave = users["ann"].attempts(long[1])[0]
    assert len(users["ann"].attempts(long[0])) == 1
    assert (gave["end_reason"], gave["preemption"]["job"]) == ("preempted", short)
    resumed = until(lambda: steps_resumed(users["ann"], long[1]), what="the second attempt of the job that made room")

    until(lambda: len(done_of(users["ann"], long[1])) > resumed, what="a step of the second attempt")
    each_once = [f"did {step + 1}" for step in range(resumed + 1)]
    assert done_of(users["ann"], long[1])[: resumed + 1] == each_once
    for job_id in long:
        users["ann"].cancel(job_id)
        ended(users["ann"], job_id)
