"""Repeats the results of articles on scaling on this machine: `python -m bench articles`, or `articles:ROW` for one.

Every side of a row is a real job through the service, on Fashion-MNIST. Times are of the training alone. The sides take
turns, and each turn has its own seed. A figure is the median over the turns, with its range. There are at most three
turns; with three, all rows take about 40 minutes on two cores.

The articles had GPUs and large photographs. Here there are CPU cores, small networks and small images. So a larger
batch cannot fill an idle device, and two ranks share one machine's memory. Each ratio is printed next to that of the
article.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.datasets import fashion_mnist, write_folder, write_parquet
from bench.trials import Laboratory, Trials, laboratory, ratio, spread

_MOST_TURNS = 3
_EARLY = {"patience": 3}
_KNOWN, _NEW = (0, 2, 3, 5, 7, 8), (1, 4, 6, 9)  # classes; three of the new ones are like known ones

_wall_s, _epoch_s, _epochs, _samples_per_s, _accuracy = map(
    attrgetter, ("wall_s", "epoch_s", "epochs_run", "samples_per_s", "test_accuracy")
)
_later_epoch_s, _later_wait, _wait = map(attrgetter, ("later_epoch_s", "later_wait_share", "wait_share"))


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    description: str
    sides: Sequence[str]  # A and B
    ratio: str
    claim: str


def main(*, rounds: int, rows: tuple[str, ...] = ()) -> None:
    """Train and print the table, with the named rows or all rows."""
    console = Console()
    samples = fashion_mnist()
    if samples is None:
        console.print("articles: skipped, install the Debian package dataset-fashion-mnist")
        return
    table = Table(
        "", "side A", "side B", "ratio", "in the articles", title="The articles on real data", show_lines=True
    )
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with laboratory(folder, samples, repeats=min(rounds, _MOST_TURNS), console=console) as lab:
            for row in rows or ROWS:
                console.print(f"articles: {row}", style="dim")
                for cells in ROWS[row](lab):
                    table.add_row(cells.description, *cells.sides, cells.ratio, cells.claim)
    console.print(table)


def _early_stopping(lab: Laboratory) -> Iterator[Row]:
    """60 epochs, as in the beginning of the article, and as many epochs as early stopping allows."""
    spec = _spec("fashion-mnist", fraction=0.1, epochs=60)
    fixed, early = lab.compare(spec | {"early_stopping": None}, spec | {"early_stopping": _EARLY})
    yield Row(
        "60 epochs | early stopping, patience 3; 10 % of the data, lenet5",
        [f"{spread(side, _epochs, '{:.0f}')} epochs, {_time_and_accuracy(side)}" for side in (fixed, early)],
        f"time {ratio(early, fixed, _wall_s):.2f}, accuracy {_points(fixed, early)}",
        "60 to 14 epochs, time 0.28, accuracy up to 76 %",
    )


def _batch(lab: Laboratory) -> Iterator[Row]:
    """Batch 2, and batch 16 with four times the rate, as in the article: 8 to the power of two thirds is 4."""
    spec = _spec("fashion-mnist", fraction=0.1, early_stopping=_EARLY)
    small, large = lab.compare(
        spec | {"batch_size": 2}, spec | {"batch_size": 16, "base_batch": 2, "lr_scaling": "two_thirds"}
    )
    rates = [side[0].job["plan"]["learning_rate"] for side in (small, large)]
    yield Row(
        f"batch 2, rate {rates[0]:.3g} | batch 16, rate {rates[1]:.3g}; 10 % of the data, lenet5",
        [f"{spread(side, _epoch_s, '{:.2f}')} s an epoch, {_time_and_accuracy(side)}" for side in (small, large)],
        f"epoch {ratio(large, small, _epoch_s):.2f}, accuracy {_points(small, large)}",
        "75 to 56 s an epoch: 0.75; same accuracy",
    )


def _data(lab: Laboratory) -> Iterator[Row]:
    """A tenth of the training data and all of it, each until early stopping ends it."""
    few, many = lab.compare(*(_spec("fashion-mnist", fraction=share, early_stopping=_EARLY) for share in (0.1, 1.0)))
    yield Row(
        "10 % | 100 % of the training data, early stopping, lenet5",
        [f"{spread(side, _epoch_s, '{:.2f}')} s an epoch, {_time_and_accuracy(side)}" for side in (few, many)],
        f"time {ratio(many, few, _wall_s):.1f}, epoch {ratio(many, few, _epoch_s):.1f}, accuracy {_points(few, many)}",
        "time 14 and 10, accuracy 76 to 83 %",
    )


def _cache(lab: Laboratory) -> Iterator[Row]:
    """Parquet on a web server that sends 2 MB/s. Each turn has its own files, so that no file is cached yet."""
    parts = {"train": lab.samples["train"].first(20_000), "test": lab.samples["test"].first(1000)}
    turns = []
    for turn in range(lab.repeats):
        source = write_parquet(parts, lab.folder / f"far-{turn}").name
        spec = _spec(f"{lab.url}/{source}", epochs=4, early_stopping=None)
        turns.append([lab.train(_with_dataset(spec, cache=cache)) for cache in ("none", "disk")])
    sides = [list(side) for side in zip(*turns, strict=True)]
    yield Row(
        "cache none | disk; Parquet behind 2 MB/s, 20,000 images, lenet5, epochs from the second on",
        [
            f"{spread(side, _later_epoch_s, '{:.2f}')} s an epoch, waiting {spread(side, _later_wait, '{:.0%}')}"
            for side in sides
        ],
        f"epoch {ratio(sides[1], sides[0], _later_epoch_s):.2f}",
        "126 to 96 min: 0.76",
    )


def _sharding(lab: Laboratory) -> Iterator[Row]:
    """Two ranks that each have a share of the data, or both draw from all of it. It is shuffled, or sorted by label."""
    few = {"train": lab.samples["train"].first(20_000), "test": lab.samples["test"]}
    orders = {"shuffled": few, "sorted": {part: samples.by_label() for part, samples in few.items()}}
    for order, parts in orders.items():
        source = write_parquet(parts, lab.folder / f"order-{order}").name
        spec = _spec(source, gpus=2, epochs=4, early_stopping=None)
        shard, steps = lab.compare(*(_with_dataset(spec, sharding=option) for option in ("shard", "steps")))
        yield Row(
            f"sharding shard | steps; {order} data in Parquet, 20,000 images, 2 ranks, 4 epochs, lenet5",
            [_time_and_accuracy(side) for side in (shard, steps)],
            f"time {ratio(steps, shard, _wall_s):.2f}, accuracy {_points(shard, steps)}",
            "shard was faster",
        )


def _frozen(lab: Laboratory) -> Iterator[Row]:
    """A job on 36,000 images of six classes stands in for ImageNet. The task is 1,000 images of the other four classes.

    A base of seven layers that was trained on six kinds of clothes is far weaker than one that was trained on ImageNet.
    """
    base = {part: samples.of_classes(_KNOWN) for part, samples in lab.samples.items()}
    task = {part: samples.of_classes(_NEW) for part, samples in lab.samples.items()}
    task["train"] = task["train"].first(2000)
    sources = [write_parquet(parts, lab.folder / name).name for name, parts in (("base", base), ("task", task))]
    pretrained = lab.train(_spec(sources[0], model="convnet7", epochs=3, early_stopping=None))
    spec = _spec(sources[1], validation=0.5, model="convnet7", epochs=20, early_stopping={"patience": 20})
    model = {"name": "convnet7", "weights": f"job:{pretrained.job['id']}", "freeze_base": True}
    scratch, frozen = lab.compare(spec, spec | {"model": model})
    targets = [min(one.best_accuracy, other.best_accuracy) for one, other in zip(scratch, frozen, strict=True)]
    times = [
        [trial.time_to_s(target) for trial, target in zip(side, targets, strict=True)] for side in (scratch, frozen)
    ]
    cells = [
        f"{spread(side, _epoch_s, '{:.2f}')} s an epoch, {median(to):.1f} s to the accuracy that both reach, "
        f"test {_tested(side)}"
        for side, to in zip((scratch, frozen), times, strict=True)
    ]
    sooner = median(there / here for here, there in zip(*times, strict=True))
    yield Row(
        "from scratch | frozen base of a job on other classes; 1,000 images, 4 classes, convnet7",
        cells,
        f"time to accuracy {sooner:.2f}, epoch {ratio(frozen, scratch, _epoch_s):.2f}, "
        f"accuracy {_points(scratch, frozen)}",
        "the first step, before new hardware; no figure",
    )


def _ranks(lab: Laboratory) -> Iterator[Row]:
    """One rank and two ranks of one thread. Strong: the same global batch. Weak: the same batch per rank."""
    spec = _spec("fashion-mnist", fraction=0.3, model="convnet7", epochs=3, early_stopping=None)
    strong = spec | {"batch_size": 128, "batch_per": "global"}
    weak = spec | {"batch_size": 64, "base_batch": 64, "lr_scaling": "linear", "warmup_epochs": 1}
    for name, sizes in (("same global batch of 128", strong), ("batch of 64 a rank, linear scaling, warm-up", weak)):
        one, two = lab.compare(*(sizes | {"gpus": gpus} for gpus in (1, 2)))
        yield Row(
            f"1 | 2 ranks, {name}; convnet7, 3 epochs",
            [f"{spread(side, _samples_per_s, '{:.0f}')} samples/s, {_time_and_accuracy(side)}" for side in (one, two)],
            f"speed-up {ratio(two, one, _samples_per_s):.2f}, accuracy {_points(one, two)}",
            "2 GPUs 1.6 (article 2), 2 (article 3); the accuracy of the serial run",
        )


def _losses(lab: Laboratory) -> Iterator[Row]:
    """The same steps on one rank and on two. They differ by rounding alone, which the network then amplifies.

    How much depends on the network. lenet5, with ELU, stays within the target. convnet7, with ReLU and a loss of more
    than 4 at its first step, begins as close, but differs by some percent after a hundred steps.
    """
    for model in ("lenet5", "convnet7"):
        spec = _spec("fashion-mnist", model=model, batch_size=128, batch_per="global", epochs=1, steps_per_epoch=100)
        one_rank, two_ranks = (lab.step_losses(lab.train(spec | {"gpus": gpus})) for gpus in (1, 2))
        differences = [abs(one - two) / one for one, two in zip(one_rank, two_ranks, strict=True)]
        yield Row(
            f"1 | 2 ranks, same global batch: the losses of 100 steps, {model}",
            [f"{losses[0]:.4f} to {losses[-1]:.4f}" for losses in (one_rank, two_ranks)],
            f"relative difference at most {max(differences[:5]):.1e} in 5 steps, {max(differences):.1e} in 100",
            "parallel training converges to the loss of the serial run (target: 1e-4)",
        )


def _formats(lab: Laboratory) -> Iterator[Row]:
    """All 60,000 images in each format, on 2 ranks. One turn, because each job takes minutes."""
    sources = {
        "IDX": "fashion-mnist",
        "folder of PNGs": write_folder(lab.samples, lab.folder / "folder").name,
        "Parquet": write_parquet(lab.samples, lab.folder / "parquet").name,
    }
    specs = [
        _spec(source, gpus=2, model="convnet7", batch_size=64, epochs=4, early_stopping=None)
        for source in sources.values()
    ]
    idx, *others = lab.compare(*specs, repeats=1)
    for name, other_format in zip(list(sources)[1:], others, strict=True):
        yield Row(
            f"IDX | {name}; all 60,000, convnet7, 2 ranks, 4 epochs",
            [
                f"{spread(side, _samples_per_s, '{:.0f}')} samples/s, waiting {spread(side, _wait, '{:.1%}')}, "
                f"test {_tested(side)}"
                for side in (idx, other_format)
            ],
            f"samples/s {ratio(other_format, idx, _samples_per_s):.2f}, accuracy {_points(idx, other_format)}",
            "none (target: at least 0.90, within 1 point)",
        )


ROWS: dict[str, Callable[[Laboratory], Iterator[Row]]] = {
    "early_stopping": _early_stopping,
    "batch": _batch,
    "data": _data,
    "cache": _cache,
    "sharding": _sharding,
    "frozen": _frozen,
    "ranks": _ranks,
    "losses": _losses,
    "formats": _formats,
}


def _spec(
    source: str, *, fraction: float = 1.0, validation: float = 0.05, cache: str = "none", **fields: Any
) -> dict[str, Any]:
    """The default spec: lenet5 on one rank."""
    dataset = {"source": source, "fraction": fraction, "validation": validation, "cache": cache}
    return {"dataset": dataset, "model": "lenet5", "batch_size": 32, "learning_rate": 0.001, "gpus": 1, **fields}


def _with_dataset(spec: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**spec, "dataset": {**spec["dataset"], **fields}}


def _time_and_accuracy(trials: Trials) -> str:
    return f"{spread(trials, _wall_s)} s, test {_tested(trials)}"


def _tested(trials: Trials) -> str:
    return spread(trials, _accuracy, "{:.3f}")


def _points(before: Trials, after: Trials) -> str:
    """The difference of the test accuracies, in points of 100: the median over the turns."""
    differences = [after.test_accuracy - before.test_accuracy for before, after in zip(before, after, strict=True)]
    return f"{100 * median(differences):+.1f} points"
