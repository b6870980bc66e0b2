"""The level of a line: the forms that common libraries print, and what only looks like one."""

import pytest

from jobs.model.log_levels import LevelReader, LogLevel


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("WARNING:root:the disk is nearly full", "warning"),
        ("2026-11-27 07:29:20,123 - trainer - WARNING - slow", "warning"),
        ("2026-11-27 07:29:20,123 - trainer - INFO - ERROR is what it does not say", "info"),
        ("2026-11-27 07:29:20.123 | ERROR    | module:function:12 - no", "error"),
        ("[07:29:20] WARNING  hm                      train.py:3", "warning"),
        ("[INFO|trainer.py:12] 2026-11-27 07:29:20,123 >> yes", "info"),
        ("warning: no space", "warning"),
        ('{"time": "2026-11-27", "level": "warning", "message": "hm"}', "warning"),
        ('ts=2026-11-27T07:29:20Z level=error msg="no"', "error"),
        ("W0000 00:00:1795762580.569440    1579 cuda_dnn.cc:8310] twice", "warning"),
        ("2026-11-27 06:56:20.522693: E external/local_xla/cuda_fft.cc:477] twice", "error"),
        ("/x/train.py:3: UserWarning: the rate is high", "warning"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", "error"),
        ("KeyboardInterrupt", "error"),
        ("", "info"),
        ("epoch 3 of 9: loss 0.1, accuracy 0.9; 1.2 s, 1,200 samples/s", "info"),
        ("Errors and warnings are counted", "info"),
    ],
)
def test_a_line_has_the_level_that_it_says(line: str, level: str) -> None:
    assert LevelReader().level_of(line) is LogLevel(level)


def test_all_lines_of_a_traceback_are_errors_and_the_next_is_not() -> None:
    lines = [
        "reading", "Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    main()",
        "    ~~~~^^", "KeyError: 'x'", "", "During handling of the above exception, another exception occurred:", "",
        "Traceback (most recent call last):", '  File "train.py", line 5, in <module>', "my.Strange: what", "going on",
    ]  # fmt: skip
    reader = LevelReader()
    levels = [reader.level_of(line).value for line in lines]
    assert levels == ["info", *["error"] * 5, "info", "error", "info", *["error"] * 3, "info"]


def test_a_long_line_takes_no_time() -> None:
    """A pattern that backtracks would take hours."""
    for piece in ("1 ", "2026-", " - ", "level", "a.b", "\u00e9 Warnin"):
        assert LevelReader().level_of(piece * 50_000) is LogLevel.INFO
