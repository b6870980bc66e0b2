"""Turns what a script tells its rank into the rank's records, and measures the time between reports.

Pure but for the checkpoints: the caller appends the records. They are plain dictionaries with the fields of
`jobs.model.records`, because a script does not wait for pydantic.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trainer.script.channel import Message
from trainer.script.checkpoints import Checkpoints, RunState
from trainer.script.patience import Patience

Record = dict[str, Any]

_PARTS_OF_STEP = {"data": "data_wait_s", "allreduce": "allreduce_s"}
_MOST_METRICS = 256
_MOST_ALERTS_A_MINUTE, _MOST_ALERTS = 10, 100  # as `jobs.model.alerts`


class Relay:
    """The reports of one rank. `checkpoints` are those of rank 0, which also writes what is about the whole job."""

    def __init__(
        self,
        write: Callable[[Record], None],
        flush: Callable[[], None],
        *,
        plan: Mapping[str, Any],
        knows_batch: bool = True,
        started_at: float,
        checkpoints: Checkpoints | None,
        patience: Patience | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._flush = flush
        self._plan = plan
        self._batch: int | None = plan["global_batch"] if knows_batch else None
        self._started_at = started_at
        self._checkpoints = checkpoints
        self._patience = patience
        self._now = now
        self._state = RunState()
        self._setup: dict[str, float] = {}
        self._resumed_step: int | None = None
        self._first_at: float | None = None  # of the first report, progress or checkpoint
        self._step: tuple[int, float] | None = None  # the last one, and when it was reported
        self._epoch = 0
        self._epoch_at: float | None = None
        self._saved: dict[int, int] = {}  # the inodes of the checkpoints, by step
        self._alerts = self._alerts_of_minute = 0  # that were passed on
        self._alert_minute = 0
        self._waits: dict[str, float] = {}  # seconds of phases since the last report with a step

    def take(self, message: Message) -> None:
        """Write the records of a message."""
        at = min(max(message["at"], self._started_at), self._now() + 1.0)  # a clock that runs away is not believed
        match message["kind"]:
            case "phase":
                self._take_phase(message["name"], message["duration_s"])
            case "resumed":
                if self._first_at is None:
                    self._resumed_step = message["step"]
            case "report":
                self._begin(at, step=message.get("step"), epoch=message.get("epoch"))
                self._take_report(at, message)
            case "progress":
                self._begin(at)
                if self._checkpoints is not None:
                    self._write({"kind": "progress", "at": at, "done": message["done"], "total": message.get("total")})
            case "alert":
                self._take_alert(at, message)
            case "checkpoint":
                self._begin(at)
                self._take_checkpoint(at, message)

    @property
    def should_stop_early(self) -> bool:
        """Whether the monitored metric has stopped improving."""
        return self._patience is not None and self._patience.is_over

    def summary(self, *, stopped_early: bool) -> Record:
        """The record of a run that came to its end. The run of a script that told nothing is all its time."""
        self._begin(min(self._started_at + sum(self._setup.values()), self._now()))
        assert self._first_at is not None
        state = self._present(self._now())
        summary = {
            "epochs_run": state.epochs or None,
            "train_samples_per_s": self._samples_per_s(state),
            "wall_s": state.wall_s,
            "setup_s": self._first_at - self._started_at,
            "stopped_early": stopped_early,
        }
        return {"kind": "summary", "at": self._now(), "summary": summary}

    def _samples_per_s(self, state: RunState) -> float | None:
        """The mean of what the script measured itself, else what its steps took."""
        if state.rates:
            return state.rates_sum / state.rates
        if self._batch is None or not state.steps or not state.steps_s:
            return None
        return self._batch * state.steps / state.steps_s

    def _take_phase(self, name: str, duration_s: float) -> None:
        _add(self._setup if self._first_at is None else self._waits, name, duration_s)

    def _begin(self, at: float, *, step: int | None = None, epoch: int | None = None) -> None:
        """The set-up is over with the first report: write its phases, and where the run continues."""
        if self._first_at is not None:
            return
        self._first_at = at
        if self._checkpoints is None:
            return
        for name, duration_s in self._setup.items():
            self._write({"kind": "phase_ended", "at": at, "name": name, "duration_s": duration_s})
        start_step, start_epoch = self._start(step, epoch)
        if self._resumed_step is not None:
            self._state = self._checkpoints.state_at(self._resumed_step)
            self._epoch = self._state.epochs
            if self._patience is not None:
                self._patience.resume(self._state.best, self._state.waited)
        planned = {"plan": self._plan, "start_step": start_step, "start_epoch": start_epoch}
        self._write({"kind": "planned", "at": at, **planned})

    def _start(self, step: int | None, epoch: int | None) -> tuple[int, int]:
        """The step and the epoch after which the run continues: what an earlier attempt reported later is void.

        A script without steps counts epochs. A script that loaded no checkpoint begins with what it reports first, and
        so does one whose checkpoints have the numbers of epochs while its reports have steps.
        """
        resumed = self._resumed_step
        first = epoch if step is None else step
        is_numbered_by_epochs = step is not None and epoch is not None and resumed == epoch - 1
        continues = resumed is not None and (first is None or first > resumed) and not is_numbered_by_epochs
        after = resumed if continues else max((first or 0) - 1, 0)
        return after or 0, max((epoch or 1) - 1, 0)

    def _take_report(self, at: float, message: Message) -> None:
        for name, seconds in message.get("phases", {}).items():
            _add(self._waits, name, seconds)
        step, epoch, metrics = message.get("step"), message.get("epoch"), message["metrics"]
        if math.isfinite(rate := metrics.get("samples_per_s", math.nan)):
            self._state = replace(self._state, rates=self._state.rates + 1, rates_sum=self._state.rates_sum + rate)
        record: Record = {"kind": "report", "at": at, "step": step, "epoch": epoch, "metrics": dict(metrics)}
        if step is not None:
            record |= self._times_of_step(at, step)
        elif epoch is not None:
            record |= self._times_of_epoch(at, epoch)
            self._watch_metric(metrics)
        if step is not None or epoch is not None:
            self._add_other_phases(record["metrics"])
        self._write(record)

    def _times_of_step(self, at: float, step: int) -> Record:
        """The mean times of the steps since the last report. None are known for the first one, and for one again."""
        before, self._step = self._step, (step, at)
        if self._epoch_at is None:
            self._epoch_at = at
        parts = {field: self._waits.pop(name, None) for name, field in _PARTS_OF_STEP.items()}
        if before is None or step <= before[0] or at <= before[1]:
            return {}
        steps, seconds = step - before[0], at - before[1]
        self._state = replace(self._state, steps=self._state.steps + steps, steps_s=self._state.steps_s + seconds)
        waits = {field: min(waited / steps, seconds / steps) for field, waited in parts.items() if waited is not None}
        rate = {} if self._batch is None else {"samples_per_s": self._batch * steps / seconds}
        return {"step_time_s": seconds / steps, **rate, **waits}

    def _times_of_epoch(self, at: float, epoch: int) -> Record:
        is_new, began_at = epoch > self._epoch, self._epoch_at
        if not is_new:
            return {}
        self._epoch, self._epoch_at = epoch, at
        self._state = replace(self._state, epochs=epoch)
        return {} if began_at is None else {"wall_s": at - began_at}

    def _add_other_phases(self, metrics: dict[str, float]) -> None:
        """Phases that are no part of every step become metrics of the report."""
        for name in [name for name in self._waits if name not in _PARTS_OF_STEP]:
            if len(metrics) < _MOST_METRICS:
                metrics.setdefault(f"{name}_s", self._waits.pop(name))

    def _watch_metric(self, metrics: Mapping[str, float]) -> None:
        if self._patience is not None:
            self._patience.note(metrics)

    def _take_alert(self, at: float, message: Message) -> None:
        """Pass an alert on, of any rank. One that comes after too many is passed on too: it says that there are."""
        if (minute := int(at // 60)) != self._alert_minute:
            self._alert_minute, self._alerts_of_minute = minute, 0
        if self._alerts_of_minute > _MOST_ALERTS_A_MINUTE or self._alerts > _MOST_ALERTS:
            return
        self._alerts_of_minute += 1
        self._alerts += 1
        texts = {"title": message["title"], "text": message.get("text", "")}
        record = {"kind": "alert", "at": at, "level": message["level"], **texts, "wait_s": message.get("wait_s", 0.0)}
        self._write(record)
        self._flush()  # people are told at once

    def _take_checkpoint(self, at: float, message: Message) -> None:
        if self._checkpoints is None:
            return
        step = message["step"]
        folder = self._checkpoints.own_of(step)
        try:
            inode = folder.lstat().st_ino
        except FileNotFoundError:
            return
        if self._saved.get(step) == inode:  # this one was told before
            return
        self._saved[step] = inode
        self._flush()  # who continues from it finds all earlier steps stored
        kept, stored_bytes = self._checkpoints.saved(step, self._present(at))
        self._write(
            {
                "kind": "checkpoint",
                "at": at,
                "epoch": self._epoch,
                "step": step,
                "path": str(folder),
                "duration_s": message["duration_s"],
                "kept": kept,
                "stored_bytes": stored_bytes,
            }
        )

    def _present(self, at: float) -> RunState:
        """The state of the run now."""
        patience = self._patience
        return replace(
            self._state,
            wall_s=self._state.wall_s + (at - (self._first_at if self._first_at is not None else at)),
            best=patience.best if patience is not None else None,
            waited=patience.waited if patience is not None else 0,
        )


def _add(phases: dict[str, float], name: str, seconds: float) -> None:
    """Add to a phase. A script that makes up ever new names gets no further ones."""
    if name in phases or len(phases) < _MOST_METRICS:
        phases[name] = phases.get(name, 0.0) + seconds
