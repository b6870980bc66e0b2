"""How the test of pages reads a page, and compares what commands print with what it shows."""

import pytest

from tests.page_sessions import Command, File, differences, session

PAGE = """# A page

Run this:

    hora up -d      # starts it
    hora run \\
        -- true

```
Hora is ready at http://127.0.0.1:8400 (state and logs in /home/ada)
```

```console
$ hora ls          # all
ID            NAME
1aagd4bvydha  job
$ export A=1
```

```yaml
base: {gpus: 1}
```

## More

```
a drawing
```
"""


def test_commands_files_and_outputs_of_a_page_are_found() -> None:
    steps = session(PAGE)
    commands = [step for step in steps if isinstance(step, Command)]
    assert [" ".join(step.text.split()) for step in commands] == [
        "hora up -d", "hora run -- true", "hora ls", "export A=1",
    ]  # fmt: skip
    ready = "Hora is ready at http://127.0.0.1:8400 (state and logs in /home/ada)\n"
    assert [step.shown for step in commands] == [
        [ready], [ready], ["ID            NAME\n1aagd4bvydha  job\n"], [],
    ]  # fmt: skip
    assert [step.content for step in steps if isinstance(step, File)] == ["base: {gpus: 1}\n"]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("1aagd4bvydha  job   28.0 s ago", "zqp82jf6xqwh job 1 min 02 s ago"),
        ("1aagd4bvydha\n1aagd4bvydha  job", "wgrnjreqzeas\nwgrnjreqzeas  job"),
        ("samples/s  26,539", "samples/s 9"),
        ("Hora is ready at http://h (state and logs in /)", "Hora is already running at URL (state and logs in /)"),
        ("slot time 30.0 s: set-up 65 %, idle 1 %", "slot time 2.1 s: idle 3 %, saving 2 %"),
        ("first\n...\nlast 3", "first\nsecond\nlast 17"),
        ("GPUS  TIME ...  COST", "GPUS  TIME  SET-UP  COST"),
        ("queued\nsucceeded", "running\nsucceeded"),
        ("took 3.1 s\ntook 2 h 05 min", "took 1 min 02 s\ntook 12 ms"),
        ("Job 1aagd4bvydha (digits)", "Job vjyezspasxme (digits)"),  # an id without a digit
    ],
    ids=str,
)  # fmt: skip
def test_outputs_of_the_same_shape_agree(shown: str, printed: str) -> None:
    assert differences(shown, printed) == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("ID  NAME", "ID  TITLE"),
        ("a 1\nb 2", "b 2\na 1"),
        ("val accuracy 0.9", "test accuracy 0.9"),
        ("status  succeeded", ""),
    ],
)
def test_outputs_of_another_shape_differ(shown: str, printed: str) -> None:
    assert differences(shown, printed) != []
