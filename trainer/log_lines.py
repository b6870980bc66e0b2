"""The lines that rank 0 prints about a training: what it trains, each epoch, and the result.

People read them, so numbers are short. Records carry the exact ones.
"""

from collections.abc import Mapping

from jobs.model.launch import Launch
from jobs.model.plan import Plan
from jobs.model.records import Summary
from trainer.callbacks import Callback, Epoch
from trainer.errors import Outcome
from trainer.state import Stopping


class EpochLines(Callback):
    """Prints a line about each epoch. Called after early stopping, whose `stopping` says which epoch is the best."""

    def __init__(self, epochs: int, stopping: Stopping) -> None:
        self._epochs = epochs
        self._stopping = stopping

    def on_epoch_end(self, epoch: Epoch) -> None:
        """Print it."""
        pace = f"{epoch.pace.epoch_s:.3g} s, {epoch.pace.samples_per_s:,.0f} samples/s"
        best = "; the best so far" if self._stopping.best_epoch == epoch.epoch else ""
        print(f"epoch {epoch.epoch} of {self._epochs}: {_figures(epoch.metrics)}; {pace}{best}", flush=True)


def beginning(launch: Launch, plan: Plan, *, parameters: int) -> str:
    """What is about to be trained, on what, and where."""
    spec, device = launch.spec, "GPU" if launch.device == "gpu" else "CPU slot"
    return (
        f"training {spec.own_model.name} with {parameters:,} parameters on {spec.own_dataset.source}:"
        f" {plan.epochs} epochs of {plan.steps_per_epoch:,} steps of {plan.global_batch:,} samples,"
        f" {plan.gpus} {device}{'' if plan.gpus == 1 else 's'}"
    )


_ENDS = {
    Outcome.COMPLETED: "finished after",
    Outcome.EARLY_STOPPED: "stopped early after",
    Outcome.PRUNED: "ended by its search after",
}


def result(outcome: Outcome, summary: Summary, *, kept_epoch: int, metrics: Mapping[str, float]) -> str:
    """How a run ended. `metrics` are those of the epoch whose weights are kept, and of the test."""
    return (
        f"{_ENDS[outcome]} epoch {summary.epochs_run}; kept is epoch {kept_epoch}: {_figures(metrics)};"
        f" {summary.wall_s:.3g} s, {summary.train_samples_per_s:,.0f} samples/s"
    )


def _figures(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
