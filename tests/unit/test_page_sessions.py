"""How the test of pages compares what commands print with what a page shows."""

import pytest

from tests.page_sessions import differences


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
