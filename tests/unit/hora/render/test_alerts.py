"""What the command line says of alerts."""

from hora.render.alerts import alert_text
from hora.render.jobs import job_details
from tests.unit.hora.render.test_jobs import JOB, NOW, facts_of

ALERT = {"at": NOW.isoformat(), "level": "error", "title": "NaN", "text": "at step 3", "rank": 1}


def test_an_alert_is_one_line_that_steers_no_terminal() -> None:
    assert alert_text(ALERT) == "error: NaN: at step 3"
    hostile = alert_text({"level": "info", "title": "\x1b[2Ja\r\nb", "text": "[bold]c[/bold]\n\u202ed"})
    assert hostile.startswith("info: ")
    assert not any(ord(letter) < 32 or letter in "\x7f\u202e" for letter in hostile)


def test_a_job_shows_how_many_alerts_it_has_and_the_newest() -> None:
    assert "alerts" not in facts_of(job_details(JOB, NOW))
    said = facts_of(job_details(JOB | {"alerts": 2, "last_alert": ALERT}, NOW))["alerts"]
    assert said.startswith("2, the newest ")
    assert said.endswith(": error: NaN: at step 3")
