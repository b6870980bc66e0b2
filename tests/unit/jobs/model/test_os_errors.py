"""Errors in words: no path of a host is left, and everything else stays."""

import pytest

from jobs.model.os_errors import in_words, without_folder, without_paths


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file", "/srv/hora/runs/a/lease"), "No such file: 'lease'"),
        (PermissionError(13, "Permission denied", b"/srv/\xff/b"), "Permission denied: 'b'"),
        (OSError(18, "Cross-device link", "/srv/a/one", None, "/mnt/b/two"), "Cross-device link: 'one' and 'two'"),
        (OSError(9, "Bad file descriptor", 7), "Bad file descriptor"),
        (OSError("Failed to open local file '/srv/data/a.parquet'"), "OSError: Failed to open local file 'a.parquet'"),
        (ValueError("none in '/srv/my data/a b' or \"/srv/bob's/c\""), "ValueError: none in 'a b' or \"c\""),
        (ValueError("no weights in /srv/hora/weights/w.h5: why?"), "ValueError: no weights in w.h5: why?"),
    ],
)  # fmt: skip
def test_an_error_is_told_without_the_paths_of_the_host(error: BaseException, words: str) -> None:
    assert in_words(error) == words


@pytest.mark.parametrize(
    "text", ["https://example.org/a/b", "s3://bucket/data/train", "a/b/c", "32/64 samples", "shape (3, 4) / 2", "./a/b"]
)
def test_a_text_without_an_absolute_path_stays_as_it_is(text: str) -> None:
    assert without_paths(text) == text


def test_a_path_in_a_text_becomes_the_name_of_its_file_or_begins_below_the_folder() -> None:
    line = 'File "/opt/hora/lib/horovod/runner.py", line 7 | sh: /usr/bin/env: not found'
    assert without_paths(line) == 'File "runner.py", line 7 | sh: env: not found'
    text = "cannot read 'a.png in /srv/hora/datasets/chips/1': /srv/hora2/x"
    assert without_folder(text, "/srv/hora") == "cannot read 'a.png in datasets/chips/1': /srv/hora2/x"
