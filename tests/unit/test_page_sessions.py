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
    ("shown", "printed", "agree"),
    [
        ("1aagd4bvydha  job   28.0 s ago", "zqp82jf6xqwh job 1 min 02 s ago", True),
        ("1aagd4bvydha\n1aagd4bvydha  job", "wgrnjreqzeas\nwgrnjreqzeas  job", True),
        ("Hora is ready at http://h (state and logs in /)",
         "Hora is already running at URL (state and logs in /)", True),
        ("slot time 30.0 s: set-up 65 %, idle 1 %", "slot time 2.1 s: idle 3 %, saving 2 %", True),
        ("GPUS  TIME ...  COST", "GPUS  TIME  SET-UP  COST", True),
        ("queued\nsucceeded", "running\nsucceeded", True),
        ("Job 1aagd4bvydha (digits)", "Job vjyezspasxme (digits)", True),  # an id without a digit
        ("ID  NAME", "ID  TITLE", False),
        ("a 1\nb 2", "b 2\na 1", False),
        ("val accuracy 0.9", "test accuracy 0.9", False),
    ],
    ids=str,
)  # fmt: skip
def test_outputs_agree_if_they_have_the_same_shape(shown: str, printed: str, agree: bool) -> None:
    assert (differences(shown, printed) == []) == agree
