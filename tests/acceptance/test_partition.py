"""A host is cut off for longer than its lease: its ranks end by themselves, and its job continues elsewhere.

An attempt must not be given up too early: when it is given up, the job may start elsewhere. At that moment no host may
have a rank of the attempt left.
"""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from jobs.runtime.processes import mark_of
from tests.acceptance.conftest import UNHURRIED, Json, wait_for_epochs
from tests.acceptance.hosts import Host, Hosts, reason_to_skip
from tests.waiting import slowdown, until

pytestmark = pytest.mark.long("hosts")

LEASE_S, HOST_TIMEOUT_S = 11, 6
OF_AN_ATTEMPT = ("metric_points", "metric_blocks", "log_lines", "samples")


@pytest.fixture(autouse=True)
def whole_again(hosts: Hosts) -> Iterator[None]:
    """After each test, passed or failed, mend all links and cancel all jobs."""
    yield
    for host in hosts:
        host.mend()
    for job in hosts.client.jobs():
        if job["status"] not in ("succeeded", "failed", "cancelled"):
            hosts.client.cancel(job["id"])
            hosts.client.wait(job["id"], timeout_s=240)


@pytest.fixture(scope="module")
def hosts(session_folder: Path) -> Iterator[Hosts]:
    """Two hosts with a slot each, which share the files of the jobs."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    factor = min(slowdown(), 5)  # short leases that a busy machine can still keep; at most about the usual length
    times = {
        "HORA_LEASE_S": f"{LEASE_S * factor:.1f}", "HORA_HOST_TIMEOUT_S": f"{HOST_TIMEOUT_S * factor:.1f}",
        "HORA_LEASE_RENEWAL_S": "1", "HORA_HEARTBEAT_PERIOD_S": "1",
    }  # fmt: skip
    with Hosts(session_folder / "parted", ("ha", "hb"), times, shared_runs=True) as hosts:
        yield hosts


def stored_of(hosts: Hosts, job_id: str, attempt: int) -> tuple[dict[str, int], list[str]]:
    """How many rows an attempt has in each table that it writes, and the kinds of its events."""
    counts = {}
    with psycopg.connect(hosts.stack.database_url) as connection:
        for table in OF_AN_ATTEMPT:
            query = f"SELECT count(*) FROM {table} WHERE job_id = %s AND attempt = %s"  # noqa: S608 - names from above
            counts[table] = connection.execute(query.encode(), (job_id, attempt)).fetchone()[0]  # type: ignore[index]
    return counts, [event["kind"] for event in hosts.client.events(job_id) if event["attempt"] == attempt]


def cut_until_given_up(hosts: Hosts, host: Host, job_id: str, number: int) -> None:
    """Cut the host off until that attempt of its job is given up. Its ranks are gone everywhere by then."""
    mark = mark_of(job_id, number)
    assert host.pids_with_mark(mark), "no rank to see the end of"
    host.cut()
    end = until(lambda: hosts.client.attempts(job_id)[number - 1]["end_reason"], what="an end")
    remaining_pids = {each.name: each.pids_with_mark(mark) for each in hosts if each.pids_with_mark(mark)}
    assert not remaining_pids, f"the attempt was given up while its ranks ran: {remaining_pids}"
    assert end in ("host_lost", "lease_expired")


def goes_on(hosts: Hosts, job_id: str, number: int) -> Json:
    """Wait until an attempt after that one trains; returns it."""
    epoch = hosts.client.job(job_id)["progress"]["epoch"]
    until(lambda: hosts.client.job(job_id)["attempt"] > number, what="another attempt")
    wait_for_epochs(hosts.client, job_id, epochs=epoch + 1)
    return hosts.client.attempts(job_id)[-1]


def come_back(hosts: Hosts, host: Host, job_id: str, number: int) -> None:
    """Mend the host's link. Nothing more of that attempt may be written, and its slots become free."""
    before = stored_of(hosts, job_id, number)
    host.mend()
    # The supervisor gives up or the agent ends it, depending on which reaches the database first.
    until(lambda: not host.running("worker.supervisor"), what="the end of the supervisor")
    until(lambda: all(slot["state"] != "leased" for slot in hosts.client.host(host.name)["slots"]), what="free slots")
    assert stored_of(hosts, job_id, number) == before


def test_a_job_continues_after_its_lead_host_and_then_its_other_host_is_cut_off(hosts: Hosts) -> None:
    """First the lead host is cut off. When it is back, the other host, where the job continued, is cut off."""
    client = hosts.client
    job = client.submit({**UNHURRIED, "min_gpus": 1})
    wait_for_epochs(client, job["id"], epochs=2)
    attempt = client.attempts(job["id"])[-1]
    (lead, other), number = (hosts[share["host"]] for share in attempt["shares"]), attempt["number"]
    assert other.pids_with_mark(mark_of(job["id"], number))
    cut_until_given_up(hosts, lead, job["id"], number)

    alone = goes_on(hosts, job["id"], number)
    assert [share["host"] for share in alone["shares"]] == [other.name]
    assert not other.running("worker.member"), "the member outlived its lead"
    come_back(hosts, lead, job["id"], number)

    cut_until_given_up(hosts, other, job["id"], alone["number"])
    elsewhere = goes_on(hosts, job["id"], alone["number"])
    assert [share["host"] for share in elsewhere["shares"]] == [lead.name]
    assert elsewhere["resumed_step"] > alone["resumed_step"] > 0, "it began anew"
    come_back(hosts, other, job["id"], alone["number"])
