"""What the command line says of alerts."""

from hora.render.alerts import alert_text


def test_an_alert_is_one_line_that_steers_no_terminal() -> None:
    hostile = alert_text({"level": "info", "title": "\x1b[2Ja\r\nb", "text": "[bold]c[/bold]\n\u202ed"})
    assert hostile.startswith("info: ")
    assert not any(ord(letter) < 32 or letter in "\x7f\u202e" for letter in hostile)
