"""`python -m bench [NAME...]`: run the named measurements (default: all) and print their tables.

All measurements take more than an hour on two cores. `articles:NAME` runs one row of `articles`. `search_jobs`, which
takes an hour by itself, only runs if it is named; `--rounds 1` is a third of it.
`python -m bench queue --trace FILE` replays a trace instead, and `python -m bench scale` times passes over a long
queue. With `--help` each names its options.
"""

import argparse
import sys
from functools import partial

from bench import (
    api,
    articles,
    dashboard,
    dispatch,
    launch,
    live,
    members,
    queue,
    sampler,
    scale,
    search,
    search_jobs,
    series,
    short_jobs,
    slurm,
    store,
    train,
)
from bench import input as reading

MEASUREMENTS = {
    "launch": launch.main,
    "short_jobs": short_jobs.main,
    "dispatch": dispatch.main,
    "series": series.main,
    "slurm": slurm.main,
    "members": members.main,
    "train": train.main,
    "input": reading.main,
    "articles": articles.main,
    "sampler": sampler.main,
    "store": store.main,
    "search": search.main,
    "api": api.main,
    "live": live.main,
    "dashboard": dashboard.main,
}
LONG = {"search_jobs": search_jobs.main}
ROWS = {f"articles:{row}": partial(articles.main, rows=(row,)) for row in articles.ROWS}


def main() -> int:
    """Run the named measurements."""
    if sys.argv[1:2] == ["queue"]:
        return queue.main(sys.argv[2:])
    if sys.argv[1:2] == ["scale"]:
        return scale.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of: {', '.join([*MEASUREMENTS, *LONG, *ROWS])}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default: 5)")
    arguments = parser.parse_args()
    named = MEASUREMENTS | LONG | ROWS
    unknown = [name for name in arguments.name if name not in named]
    if unknown:
        parser.error(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(named)}")
    for name in arguments.name or MEASUREMENTS:
        named[name](rounds=arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
