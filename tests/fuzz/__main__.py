"""`python -m tests.fuzz`: run all checks of Schemathesis against the api. The exit code is 1 if one fails."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz_a_stack


def main() -> int:
    """Run Schemathesis and print its findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("fuzz.txt"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hora-fuzz-") as folder:
        Path(folder).chmod(0o755)  # the database of root runs as another user
        failed_outputs = fuzz_a_stack(
            Path(folder) / "home", seconds=arguments.seconds, seed=arguments.seed, report=arguments.report
        )
    print("\n".join(failed_outputs) or arguments.report.read_text()[-3000:])
    return 1 if failed_outputs else 0


if __name__ == "__main__":
    sys.exit(main())
