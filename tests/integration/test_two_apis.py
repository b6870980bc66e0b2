"""Two apis of one service, each a server process of its own, with one database and one broker."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import httpx2
import pytest

from hora.stack.control import Stack
from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people.tokens import store_token
from tests.waiting import until

RATE, SHARE = 5.0, 6


class Api:
    """A server process."""

    def __init__(self, environment: dict[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            fd = listening.fileno()
            os.set_inheritable(fd, True)
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            command = [sys.executable, "-m", "api", "--fd", str(fd)]
            self.process = subprocess.Popen(command, pass_fds=[fd], env=environment)

    def is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def broker_stack(short_folder: Path) -> Iterator[Stack]:
    """A broker of the test's own, which it may stop."""
    with Stack(short_folder / "b", port=0, parts=("broker",)) as stack:
        yield stack


@pytest.fixture
def apis(database: str, broker_stack: Stack, tmp_path: Path) -> Iterator[list[Api]]:
    environment = os.environ | {
        "HORA_DATABASE_URL": database, "HORA_BROKER_URL": broker_stack.broker_url, "HORA_HOME": str(tmp_path),
        "HORA_MAX_STREAMS": str(SHARE), "HORA_AUTH_FAILURES_PER_S": "1",
    }  # fmt: skip
    apis = [Api(environment) for _ in range(2)]
    try:
        for api in apis:
            until(api.is_ready, what="an api")
        yield apis
    finally:
        for api in apis:
            api.kill()


@pytest.fixture
def token_of(sessions: Sessions) -> Callable[..., dict[str, str]]:
    """The headers of a new token of a user."""

    def make(user: str, rate: float = RATE) -> dict[str, str]:
        with sessions.begin() as session:
            store_token(session, f"hora_two-{user}", user=user, scope=Scope.READ, rate_limit_per_s=rate)
        return {"Authorization": f"Bearer hora_two-{user}"}

    return make


def admitted(apis: list[Api], headers: dict[str, str], *, seconds: float) -> tuple[int, float]:
    """Send as many requests as possible to all apis. Returns how many were not refused, and how long it took."""

    def send(api: Api) -> int:
        with httpx2.Client(headers=headers, timeout=60) as client:
            count = 0
            while monotonic() - began < seconds:
                status = client.get(f"{api.url}/v1/me").status_code
                assert status in (200, 429)
                count += status == 200
            return count

    began = monotonic()
    with ThreadPoolExecutor(len(apis)) as pool:
        counts = list(pool.map(send, apis))
    return sum(counts), monotonic() - began


def open_streams(api: Api, headers: dict[str, str], most: int, stack: ExitStack) -> int:
    """Open up to so many streams, until one is refused. Returns how many are open."""
    client = stack.enter_context(httpx2.Client(headers=headers, timeout=60))
    for number in range(most):
        answer = stack.enter_context(client.stream("GET", f"{api.url}/v1/events"))
        if answer.status_code != 200:
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
            assert f"has {SHARE} live streams open" in answer.read().decode()
            return number
    return most


def test_two_apis_keep_one_limit_and_each_its_own_while_the_broker_is_away(
    apis: list[Api], token_of: Callable[..., dict[str, str]], broker_stack: Stack
) -> None:
    count, seconds = admitted(apis, token_of("alice"), seconds=8)
    burst = 2 * RATE
    assert RATE * 6 <= count <= (RATE * seconds + 2 * burst) * 1.1, "one rate; a burst at each api"

    os.kill(broker_stack.pid_of("broker"), signal.SIGSTOP)
    try:
        bob = token_of("bob", 1.0)  # so low that one client, which waits between its requests, exceeds it
        for api in apis:
            with httpx2.Client(headers=bob, timeout=60) as client:
                statuses = [client.get(f"{api.url}/v1/me").status_code for _ in range(2)]
                assert statuses == [200, 200], "each api has its own limit"
                until(lambda url=api.url, client=client: client.get(f"{url}/v1/me").status_code == 429, what="a limit")  # type: ignore[misc]
        with ExitStack() as stack:
            assert [open_streams(api, token_of("carol", 1000), SHARE + 2, stack) for api in apis] == [SHARE, SHARE]
    finally:
        os.kill(broker_stack.pid_of("broker"), signal.SIGCONT)


def test_unknown_tokens_are_counted_at_both_apis(apis: list[Api]) -> None:
    headers = {"Authorization": "Bearer hora_guess"}

    def refused(api: Api) -> bool:
        return httpx2.get(f"{api.url}/v1/me", headers=headers, timeout=60).status_code == 429

    guesses = sum(not refused(apis[0]) for _ in range(60))
    assert guesses >= 20
    until(lambda: refused(apis[1]), what="a refusal at the other api")


def test_streams_are_shared_and_those_of_a_killed_api_are_given_back(
    apis: list[Api], token_of: Callable[..., dict[str, str]]
) -> None:
    alice = token_of("alice", 1000)
    with ExitStack() as first, ExitStack() as second:
        assert open_streams(apis[0], alice, 4, first) == 4
        assert open_streams(apis[1], alice, SHARE, second) == SHARE - 4
        assert open_streams(apis[1], token_of("bob"), 1, second) == 1
        apis[0].kill()
        opened = SHARE - 4

        def are_given_back() -> bool:
            nonlocal opened
            opened += open_streams(apis[1], alice, 1, second)
            return opened == SHARE

        until(are_given_back, what="streams of the killed api")
