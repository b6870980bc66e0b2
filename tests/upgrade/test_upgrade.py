"""A rolling upgrade from the version before disturbs no job. `make upgrade FROM=REVISION` starts from any version."""

from pathlib import Path

import pytest

from tests.upgrade.rolling import Upgrade
from tests.upgrade.versions import NoOlderVersion, Version, newest_older_version

pytestmark = pytest.mark.long("releases")


def test_jobs_train_on_while_schema_apis_and_workers_are_upgraded(short_folder: Path) -> None:
    try:
        old = Version.of(newest_older_version(), short_folder / "old")
    except NoOlderVersion as error:
        pytest.skip(str(error))
    stages: list[str] = []
    failures = Upgrade(short_folder / "stack", old, stages.append).run()
    assert not failures, "\n".join([*stages, "", *failures])
