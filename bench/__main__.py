"""`python -m bench [NAME...]`: run the named measurements (default: all) and print their tables."""

import argparse
import sys

from bench import launch, train

MEASUREMENTS = {"launch": launch.main, "train": train.main}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default: 5)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.name if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(MEASUREMENTS)}")
    for name in arguments.name or MEASUREMENTS:
        MEASUREMENTS[name](rounds=arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
