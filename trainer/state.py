"""How far a run is, and what it remembers: all of a checkpoint but its arrays. Used by the loop and its callbacks."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field


@dataclass
class Progress:
    """How far a run is, and its sums so far; equal on all ranks except for the times.

    The first update of an attempt is set-up: it counts in the averages and not in the times.
    """

    epoch: int = 1  # the epoch in training
    step: int = 0  # updates of the whole job
    epoch_step: int = 0  # updates of the epoch in training
    sums: list[float] = field(default_factory=list)  # over those, of the loss and the task's figures, as in a `Tally`
    epoch_timed_samples: int = 0
    epoch_train_s: float = 0.0
    timed_samples: int = 0  # of the earlier epochs
    train_s: float = 0.0
    wall_s: float = 0.0  # of all training, with validation and checkpoints, over all attempts

    @property
    def last_epoch(self) -> int:
        """The newest epoch that was trained at least in part."""
        return self.epoch if self.epoch_step else self.epoch - 1

    def add_figures(self, figures: Sequence[float]) -> None:
        """Add the figures of an update."""
        self.sums = [total + figure for total, figure in zip(self.sums or [0.0] * len(figures), figures, strict=True)]

    def begin_next_epoch(self) -> None:
        """Add the sums of the epoch in training to the totals, and start the next epoch."""
        self.timed_samples += self.epoch_timed_samples
        self.train_s += self.epoch_train_s
        self.epoch += 1
        self.epoch_step = self.epoch_timed_samples = 0
        self.epoch_train_s, self.sums = 0.0, []


@dataclass
class Stopping:
    """What early stopping remembers."""

    best: float | None = None
    best_epoch: int = 0
    best_metrics: dict[str, float] = field(default_factory=dict)
    last_epoch: int = 0
    last_metrics: dict[str, float] = field(default_factory=dict)
    wait: int = 0  # epochs since the best one
    after_best_s: float = 0.0  # what those took
    epochs_s: float = 0.0  # what all epochs took
    stopped: bool = False

    @property
    def after_best_share(self) -> float:
        """The share of the time of all epochs that came after the best one; 0..1."""
        return self.after_best_s / self.epochs_s if self.epochs_s else 0.0


@dataclass
class Plateau:
    """What a schedule that lowers the rate on plateaus remembers."""

    best: float | None = None
    wait: int = 0  # epochs since the best one, or since the rate was lowered
    lowered: int = 0  # how often


@dataclass
class State:
    """All of a checkpoint but its arrays."""

    ranks: int
    global_batch: int
    progress: Progress = field(default_factory=Progress)
    stopping: Stopping = field(default_factory=Stopping)
    plateau: Plateau = field(default_factory=Plateau)
    vocabulary: str | None = None  # of texts: the SHA-256 of the words that the weights are for

    def on_plan(self, *, ranks: int, global_batch: int, steps_per_epoch: int) -> "State":
        """The same place in the data for another global batch. At most one batch is trained on twice."""
        self.ranks = ranks
        if global_batch != self.global_batch:
            samples = self.progress.epoch_step * self.global_batch
            steps = min(samples // global_batch, steps_per_epoch)
            share = steps / self.progress.epoch_step if self.progress.epoch_step else 0.0
            self.progress.sums = [total * share for total in self.progress.sums]
            self.progress.epoch_step = steps
            self.global_batch = global_batch
        return self

    def for_next_job(self, *, lacks_best: bool) -> "State":
        """The state with which another job continues: its times are its own, and it is not over.

        `lacks_best`: it wants to keep the weights of the best epoch, and they were not saved. Then the best epoch is
        one of its own.
        """
        progress, stopping = self.progress, self.stopping
        progress.timed_samples, progress.train_s, progress.wall_s = 0, 0.0, 0.0
        stopping.after_best_s = stopping.epochs_s = 0.0
        if stopping.stopped or lacks_best:
            stopping.stopped, stopping.wait = False, 0
        if lacks_best:
            stopping.best, stopping.best_epoch, stopping.best_metrics = None, 0, {}
        return self

    def to_json(self) -> str:
        """The state as text, which `from_json` reads back exactly."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "State":
        """Raises KeyError or TypeError on a text of another shape."""
        document = json.loads(text)
        progress = document["progress"]
        if "loss_sum" in progress:  # an older checkpoint
            progress["sums"] = [progress.pop("loss_sum"), progress.pop("accuracy_sum")]
        return cls(
            ranks=document["ranks"],
            global_batch=document["global_batch"],
            progress=Progress(**progress),
            stopping=Stopping(**document["stopping"]),
            plateau=Plateau(**document.get("plateau", {})),  # older checkpoints have none
            vocabulary=document.get("vocabulary"),
        )
