"""How often a host looks at what any host might do."""

import pytest

from jobs.db.engine import Sessions
from jobs.scheduling.hosts import shared_period_s
from tests.integration.jobs import job_rows


@pytest.mark.parametrize(("hosts", "silent", "seconds"), [(0, 0, 2), (3, 0, 2), (50, 0, 2), (100, 0, 4), (100, 25, 3)])
def test_the_period_between_passes_grows_with_more_than_fifty_live_hosts(
    sessions: Sessions, hosts: int, silent: int, seconds: float
) -> None:
    for number in range(hosts):
        job_rows.a_host(sessions, f"h{number}", slots=1)
    for number in range(silent):
        job_rows.host_went_silent(sessions, f"h{number}")
    with sessions() as session:
        assert shared_period_s(session, 2.0, host_timeout_s=15) == seconds
