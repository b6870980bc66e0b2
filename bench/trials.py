"""Trains jobs through the service, one after the other, and reads their figures. Used by `bench.articles`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console

from bench.datasets import Samples
from bench.web import serving
from hora.service import Service
from hora.stack.control import Stack

Json = dict[str, Any]

SLOTS = 2
_BYTES_PER_S = 2e6  # of the web server


@dataclass(frozen=True)
class Trained:
    """A job that has succeeded. Its times are those of the training, without queue and set-up."""

    job: Json
    series: Sequence[Json]  # of the epoch axis

    @property
    def wall_s(self) -> float:
        """Seconds of the training, with validation."""
        return float(self.job["summary"]["wall_s"])

    @property
    def epochs_run(self) -> float:
        """The number of epochs."""
        return float(self.job["summary"]["epochs_run"])

    @property
    def epoch_s(self) -> float:
        """Mean seconds of an epoch."""
        return fmean(self.epochs["epoch_s"])

    @property
    def samples_per_s(self) -> float:
        """Samples per second over all ranks."""
        return float(self.job["summary"]["train_samples_per_s"])

    @property
    def test_accuracy(self) -> float:
        """The test accuracy of the kept weights. Without a test part it is the validation accuracy."""
        summary = self.job["summary"]
        return float(summary["val_accuracy"] if summary["test_accuracy"] is None else summary["test_accuracy"])

    @property
    def best_accuracy(self) -> float:
        """The best validation accuracy."""
        return max(self.epochs["val_accuracy"])

    @cached_property
    def epochs(self) -> dict[str, list[float]]:
        """The values over all ranks of every epoch, by metric."""
        return {each["name"]: each["y"] for each in self.series if each["rank"] == -1}

    @property
    def later_epoch_s(self) -> float:
        """Mean seconds of an epoch, without the first epoch."""
        return fmean(self.epochs["epoch_s"][1:])

    @property
    def wait_share(self) -> float:
        """The share of the time in which steps waited for data."""
        return sum(self.epochs["data_wait_s"]) / sum(self.epochs["epoch_s"])

    @property
    def later_wait_share(self) -> float:
        """The same, without the first epoch."""
        return sum(self.epochs["data_wait_s"][1:]) / sum(self.epochs["epoch_s"][1:])

    def time_to_s(self, accuracy: float) -> float:
        """Seconds of training until the validation accuracy was reached. Raises ValueError if it never was."""
        for spent_s, reached in zip(accumulate(self.epochs["epoch_s"]), self.epochs["val_accuracy"], strict=True):
            if reached >= accuracy:
                return spent_s
        raise ValueError(f"the accuracy {accuracy} was never reached")


Trials = list[Trained]


@dataclass(frozen=True)
class Laboratory:
    """A stack of two slots for trials. Jobs can read data below `folder` and below `url`."""

    client: Service
    folder: Path
    url: str  # the same folder behind a slow line
    samples: Mapping[str, Samples]  # of Fashion-MNIST: train and test
    repeats: int
    console: Console

    def train(self, spec: Mapping[str, Any]) -> Trained:
        """Run one job to its end. Raises RuntimeError if it does not succeed."""
        job = self.client.wait(self.client.submit(spec)["id"])
        if job["status"] != "succeeded":
            raise RuntimeError(f"job {job['id']} {job['status']}: {job['end_reason']}: {job['error']}")
        return Trained(job, self.client.metrics(job["id"], axis="epoch"))

    def compare(self, *specs: Mapping[str, Any], repeats: int | None = None) -> list[Trials]:
        """The trials of each spec, in turns, each turn with a seed of its own."""
        trials: list[Trials] = [[] for _ in specs]
        for number in range(repeats or self.repeats):
            for place, spec in enumerate(specs):
                self.console.print(f"articles: turn {number + 1}, side {place + 1} of {len(specs)}", style="dim")
                trials[place].append(self.train({**spec, "seed": 42 + number}))
        return trials

    def step_losses(self, trained: Trained) -> list[float]:
        """The loss of every step, over the global batch: the mean of the ranks' own."""
        points = self.client.metrics(trained.job["id"], name="loss", axis="step", max_points=10_000)
        of_ranks = [series["y"] for series in points if series["rank"] >= 0]
        return [fmean(losses) for losses in zip(*of_ranks, strict=True)]


@contextmanager
def laboratory(folder: Path, samples: Mapping[str, Samples], *, repeats: int, console: Console) -> Iterator[Laboratory]:
    """Start a stack below an empty folder, and a web server of the data in it."""
    home, data = folder / "home", folder / "data"
    data.mkdir()
    with serving(data, bytes_per_s=_BYTES_PER_S) as url:
        os.environ["HORA_DATA_ROOTS"] = f"{data}:{url}"  # the stack reads its other settings from the environment
        with Stack(home, port=0, slots=SLOTS) as stack, Service(stack.url, stack.token) as client:
            yield Laboratory(client, data, url, samples, repeats, console)


def spread(trials: Trials, figure: Callable[[Trained], float], form: str = "{:.1f}") -> str:
    """The median of a figure over the trials, and its range where there are several."""
    values = sorted(map(figure, trials))
    text = form.format(median(values))
    return text if len(values) == 1 else f"{text} ({form.format(values[0])} to {form.format(values[-1])})"


def ratio(above: Trials, below: Trials, figure: Callable[[Trained], float]) -> float:
    """The figure of one side divided by that of the other: the median over the turns."""
    return median(figure(one) / figure(other) for one, other in zip(above, below, strict=True))
