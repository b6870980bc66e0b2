"""What a command ends with, for scripts. docs/cli.md has the table."""

SUCCEEDED, ERROR, USAGE, FAILED, NOT_FINISHED, NOT_FOUND, CANCELLED = 0, 1, 2, 100, 101, 102, 103
OUTCOME = {"succeeded": SUCCEEDED, "failed": FAILED, "cancelled": CANCELLED}  # of a job, or a study
