"""Alerts: what a script, or a rule of the spec, tells people while a job runs. Which of them are kept. Pure.

Used by the intake, which reads alerts from records, and by `jobs.lifecycle.alerts`, which stores them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

AlertLevel = Literal["info", "warning", "error"]

MOST_A_MINUTE, MOST_A_JOB = 10, 100  # alerts of a script; `trainer.script.relay` lets one more through of each rank
MOST_IN_TITLE, MOST_IN_TEXT = 100, 1000  # characters; `hora.run` cuts what is longer


@dataclass(frozen=True)
class Alert:
    """One alert. `rule` is its place in the spec's `alerts`; None: a script sent it, from `rank`."""

    at: float  # seconds since the Unix epoch
    level: AlertLevel
    title: str
    text: str = ""
    rank: int | None = None
    rule: int | None = None
    epoch: int | None = None
    step: int | None = None
    wait_s: float = 0.0  # it is a repeat if one with its title came so shortly before
    left_out: bool = False  # it says that further ones are left out

    @property
    def data(self) -> dict[str, Any]:
        """The data of its event, without what is not known."""
        names = ("level", "title", "text", "rank", "rule", "epoch", "step", "left_out")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}


def kept(wanted: Iterable[Alert], earlier: Sequence[Alert]) -> list[Alert]:
    """Those of the wanted alerts that a job with these earlier ones gets.

    A rule speaks once in a job, and no limit stops it. When a script sends too many, one alert says so.
    """
    chosen: list[Alert] = []
    rules = {alert.rule for alert in earlier}
    of_scripts = [alert for alert in earlier if alert.rule is None and not alert.left_out]
    said = any(alert.left_out for alert in earlier)
    minutes = Counter(_minute(alert) for alert in of_scripts)
    last_at = {alert.title: alert.at for alert in of_scripts}
    for alert in wanted:
        if alert.rule is not None:
            if alert.rule not in rules:
                rules.add(alert.rule)
                chosen.append(alert)
        elif alert.title in last_at and abs(alert.at - last_at[alert.title]) < alert.wait_s:  # ranks come in any order
            continue
        elif minutes.total() < MOST_A_JOB and minutes[_minute(alert)] < MOST_A_MINUTE:
            minutes[_minute(alert)] += 1
            last_at[alert.title] = alert.at
            chosen.append(alert)
        elif not said:
            said = True
            chosen.append(_left_out(alert))
    return chosen


def _minute(alert: Alert) -> int:
    return int(alert.at // 60)


def _left_out(alert: Alert) -> Alert:
    text = f"A script may send {MOST_A_MINUTE} alerts a minute and {MOST_A_JOB} in all."
    return Alert(alert.at, "warning", "Further alerts of the script are left out", text, left_out=True)
