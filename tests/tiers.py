"""The two tiers of the suite: what every change must pass, and the parts of what is long. `tests.conftest` loads it.

A test without a mark is in the short tier. A test of the long tier says in which part it is:

    pytestmark = pytest.mark.long("faults")

`--tier short` runs the short tier, `--tier long` all parts, `--tier faults` one part. Without the option every test
runs that the command line names. `--shuffle 7` runs the files in another order, which the number decides.
`python -m tests.tiers 1234` prints the part whose turn it is after 1,234 commits.
"""

import random
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
    parser.addoption("--shuffle", metavar="SEED", help="run the files in a random order")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"long(part): of the long tier; its parts are {', '.join(PARTS)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        items.sort(key=lambda item: random.Random(f"{seed} {item.path}").random())  # noqa: S311 - the order of files
    tier = config.getoption("--tier")
    chosen: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        own = _tier_of(item)
        chosen[tier in (None, own) or (tier == LONG and own != SHORT)].append(item)
    config.hook.pytest_deselected(items=chosen[False])
    items[:] = chosen[True]


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
