"""The callbacks that record steps, epochs and damage. Listed by the session, called by the loop.

RankRecording     the steps and epochs of each rank
EpochRecording    the epochs of the job, by rank 0
DamageWatch       samples that turn out to be damaged while they are read; too many end the run
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from jobs.model.records import DataOpened, EpochEnded, RankEpochEnded, StepEnded
from trainer.callbacks import Callback, Epoch, Step
from trainer.data.classes import warnings_about
from trainer.data.interfaces import Facts
from trainer.data.opening import Dataset, check_damage
from trainer.recorder import Records


class RankRecording(Callback):
    """Records the steps and the epochs of this rank."""

    def __init__(self, recorder: Records, *, global_batch: int) -> None:
        self._recorder = recorder
        self._global_batch = global_batch

    def on_step_end(self, step: Step) -> None:
        """Record a step. Steps are written a few times a second, several at once."""
        self._recorder.buffer(
            StepEnded(
                at=time.time(),
                step=step.step,
                epoch=step.epoch,
                step_time_s=step.step_time_s,
                data_wait_s=step.data_wait_s,
                allreduce_s=step.allreduce_s,
                samples_per_s=self._global_batch / step.step_time_s,
                metrics=step.metrics,
            )
        )

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Record the epoch's times on this rank."""
        times = epoch.times
        p50, p95 = np.percentile(times.steps_s, (50, 95)).tolist() if times.steps_s else (0.0, 0.0)
        self._recorder.write(
            RankEpochEnded(
                at=time.time(),
                epoch=epoch.epoch,
                step=epoch.step,
                step_time_p50_s=p50,
                step_time_p95_s=p95,
                data_wait_s=times.data_wait_s,
                allreduce_s=times.allreduce_s,
            )
        )


class EpochRecording(Callback):
    """Records the epochs of the job, on rank 0."""

    def __init__(self, recorder: Records, learning_rate: Callable[[], float]) -> None:
        self._recorder = recorder
        self._learning_rate = learning_rate

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Record the epoch with the rate of its last update."""
        self._recorder.write(
            EpochEnded(
                at=time.time(),
                epoch=epoch.epoch,
                step=epoch.step,
                wall_s=epoch.pace.epoch_s,
                samples_per_s=epoch.pace.samples_per_s,
                learning_rate=self._learning_rate(),
                metrics=epoch.metrics,
                data_wait_s=epoch.pace.data_wait_s,
                allreduce_s=epoch.pace.allreduce_s,
            )
        )


class DamageWatch(Callback):
    """Looks, after each epoch, at the samples that any rank could not read. `name` is the data's name in messages."""

    def __init__(self, dataset: Dataset, recorder: Records, *, name: str) -> None:
        self._dataset = dataset
        self._recorder = recorder
        self._name = name
        self._known_damage = dict(dataset.facts.damaged)

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Name the new ones. Raise `BadData` on every rank if all of them together are too many."""
        new_damage = {name: reason for name, reason in epoch.damaged.items() if name not in self._known_damage}
        if not new_damage:
            return
        self._known_damage |= new_damage
        for name in new_damage.keys() & self._dataset.damage().keys():  # each rank prints its own ones
            print(f"warning: damaged and left out: {name}: {new_damage[name]}", flush=True)
        facts = self._dataset.facts
        self._recorder.write(data_opened(facts, self._known_damage))
        sizes = facts.sizes
        samples = sizes.train + sizes.validation + sizes.test + len(facts.damaged)
        check_damage(self._known_damage, samples=samples, name=self._name)


def data_opened(facts: Facts, damaged: Mapping[str, str], *, most_named: int = 20) -> DataOpened:
    """The record of the opened data. `damaged` has the samples that cannot be read, and why."""
    return DataOpened(
        at=time.time(),
        format=facts.format,
        shape=list(facts.shape),
        words=len(facts.vocabulary) if facts.are_texts else None,
        classes=list(facts.classes),
        task=facts.task,
        targets=len(facts.targets.mean) if facts.targets else 0,
        train=facts.sizes.train,
        validation=facts.sizes.validation,
        test=facts.sizes.test,
        damaged=len(damaged),
        damaged_files=list(damaged)[:most_named],
        warnings=warnings_about(facts.classes, facts.counts),
    )
