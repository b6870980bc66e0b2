"""The two tiers of the suite: what every change must pass, and the parts of what is long. `tests.conftest` loads it.

A test without a mark is in the short tier. A test of the long tier says in which part it is:

    pytestmark = pytest.mark.long("faults")

`--tier short` runs the short tier, `--tier long` all parts, `--tier faults` one part. Without the option every test
runs that the command line names. `python -m tests.tiers 1234` prints the part whose turn it is after 1,234 commits.
"""

import sys

import pytest

SHORT, LONG = "short", "long"
# `.ci/run` runs one part of the long tier at each landing. So each part may take a third of the time.
PARTS = {
    "faults": "chaos, full disks, a store that fails, killed processes of a search",
    "hosts": "Slurm and its faults, partitions, lost hosts, networks",
    "releases": "every page in every form, the commands of the documentation, the upgrade, random requests, builds",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=[SHORT, LONG, *PARTS], help="run only this tier, or this part of the long tier")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"long(part): of the long tier; its parts are {', '.join(PARTS)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier, tiers = config.getoption("--tier"), {item: _tier_of(item) for item in items}
    if tier is None:
        return
    selected = [item for item in items if tiers[item] == tier or (tier == LONG and tiers[item] != SHORT)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


def _tier_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("long")
    if mark is None:
        return SHORT
    part: str = mark.args[0]
    if part not in PARTS:
        raise pytest.UsageError(f"{item.nodeid}: no part {part!r} of the long tier; there are {', '.join(PARTS)}")
    return part


if __name__ == "__main__":
    sys.stdout.write([*PARTS][int(sys.argv[1]) % len(PARTS)] + "\n")
