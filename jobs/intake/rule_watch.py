"""Watches what an attempt writes for what the rules of its spec wait for. Used by the intake. No I/O.

How many values in a row held is stored with the offsets of the attempt's files, so the next reader goes on counting. A
new attempt begins to count anew. Who stores an alert leaves out what its rule has said before.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jobs.intake.batch import Batch
from jobs.lifecycle.store import Lease
from jobs.model.alert_rules import AlertRule, condition_of, first_with, pattern_of
from jobs.model.alerts import MOST_IN_TEXT, Alert
from jobs.model.goals import TIMES
from jobs.model.log_levels import LogLevel
from jobs.suggestions import meant
from jobs.telemetry.ingest import ALL_RANKS, LAUNCHER, LogRow, MetricRow


class RuleWatch:
    """The rules of a job that have not spoken yet, as far as this reader knows."""

    def __init__(self, rules: Sequence[Mapping[str, Any]], *, is_script: bool) -> None:
        self._rules = {number: AlertRule.model_validate(rule) for number, rule in enumerate(rules)}
        whens = {number: rule.when for number, rule in self._rules.items() if rule.when is not None}
        self._conditions = {number: condition_of(when) for number, when in whens.items()}
        logs = {number: rule.log for number, rule in self._rules.items() if rule.log is not None}
        self._patterns = {number: pattern_of(log) for number, log in logs.items()}
        self._ranks = (ALL_RANKS, 0) if is_script else (ALL_RANKS,)

    def judge(self, batch: Batch, counts: Mapping[str, Any]) -> dict[str, int]:
        """Add the alerts of the rules to the batch. Takes and returns how many values in a row held, by rule."""
        values = self._values(batch) if self._conditions else {}
        after = {name: int(count) for name, count in counts.items() if name.startswith("rule:")}
        for number, condition in self._conditions.items():
            in_a_row = int(counts.get(f"rule:{number}", 0))
            for row in values.get(condition.metric, ()):
                in_a_row = in_a_row + 1 if condition.holds(row.value) else 0
                if in_a_row == self._rules[number].in_a_row:
                    batch.alerts.append(self._of_value(number, row))
            if in_a_row or f"rule:{number}" in after:
                after[f"rule:{number}"] = in_a_row
        if self._patterns:
            batch.alerts += self._of_lines(batch.logs)
        return after

    def note_stored(self, batch: Batch) -> None:
        """Remember that a batch is stored: its rules say no more."""
        for number in {alert.rule for alert in batch.alerts if alert.rule is not None}:
            self._conditions.pop(number, None)
            self._patterns.pop(number, None)

    def unheard_of(self, metrics: Collection[str], lease: Lease) -> Iterator[LogRow]:
        """A line of the log for each rule whose metric was never reported, at the end of a run with these metrics."""
        for number, condition in self._conditions.items():
            name = condition.metric
            if name not in metrics and name not in TIMES:
                text = (
                    f"hora: alerts.{number} waits for the metric {name}, which was never reported{meant(name, metrics)}"
                )
                yield LogRow(lease.job_id, lease.number, 0, datetime.now(UTC), text, LogLevel.WARNING.number)

    def _values(self, batch: Batch) -> Mapping[str, Sequence[MetricRow]]:
        watched = {condition.metric for condition in self._conditions.values()}
        values = defaultdict[str, list[MetricRow]](list)
        for row in batch.metrics:
            if row.name in watched and row.rank in self._ranks:
                values[row.name].append(row)
        return values

    def _of_value(self, number: int, row: MetricRow) -> Alert:
        rule = self._rules[number]
        is_of_epoch = row.rank == ALL_RANKS and row.epoch > 0
        place = f"in epoch {row.epoch}" if is_of_epoch else f"at step {row.step}"
        epoch, step = (row.epoch, None) if is_of_epoch else (None, row.step)
        text = f"{row.name} is {row.value:.6g} {place}"
        return Alert(row.at.timestamp(), rule.level, rule.title, text, rule=number, epoch=epoch, step=step)

    def _of_lines(self, lines: Sequence[LogRow]) -> Iterator[Alert]:
        """The first line of each pattern."""
        texts = [row.text for row in lines]
        for number, pattern in self._patterns.items():
            if (place := first_with(pattern, texts)) is not None:
                row = lines[place]
                rule, rank = self._rules[number], None if row.rank == LAUNCHER else row.rank
                yield Alert(row.at.timestamp(), rule.level, rule.title, row.text[:MOST_IN_TEXT], rank=rank, rule=number)


def line_of(alert: Alert, lease: Lease) -> LogRow:
    """The line of the log that shows an alert where it came; those about the whole job are in the log of rank 0."""
    text = " ".join(f"hora: alert: {alert.title}{alert.text and ': '}{alert.text}".replace("\x00", "\ufffd").split())
    at, level = datetime.fromtimestamp(alert.at, UTC), LogLevel(alert.level).number
    return LogRow(lease.job_id, lease.number, alert.rank or 0, at, text, level)
