"""Datasets opened as a training session opens them: every rank surveys a share, and all ranks use all surveys."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

from jobs.model.plan import Plan, resolve_plan
from jobs.model.spec import Spec, spec_from
from jobs.model.tasks import AnyTask
from trainer.data.interfaces import Batch, Host
from trainer.data.opening import Dataset, open_source


def spec_of(dataset: Any, **fields: Any) -> Spec:
    """A spec that trains on this dataset."""
    return spec_from({"dataset": dataset, "batch_size": 8} | fields)


def open_dataset(
    dataset: Any,
    scratch: Path,
    *,
    data_roots: Sequence[str] | None = None,
    ranks: int = 1,
    seed: int = 42,
    task: AnyTask = "auto",
) -> Dataset:
    """Rank 0's dataset, prepared by all ranks. `scratch` is the scratch folder of the host, and by default its data
    root. Raises `BadData`."""
    spec = spec_of(dataset, seed=seed).dataset
    host = Host(data_roots or [str(scratch)], cache_dir=scratch / "cache", scratch_dir=scratch, threads=1)
    sources = [open_source(spec, seed=seed, host=host, task=task) for _ in range(ranks)]
    surveys = [source.survey(rank=rank, ranks=ranks) for rank, source in enumerate(sources)]
    surveys = json.loads(json.dumps(surveys))  # as ranks send them
    datasets = [source.to_dataset(surveys) for source in sources]
    for rank, dataset_of_rank in enumerate(datasets):
        dataset_of_rank.prepare(local_rank=rank, local_ranks=ranks)
    return datasets[0]


def plan_of(dataset: Dataset, spec: Spec) -> Plan:
    """The plan that a run of the spec on the dataset follows."""
    return resolve_plan(spec, dataset.facts.sizes)


def train_batches(dataset: Dataset, spec: Spec, *, rank: int = 0, epoch: int = 1, first: int = 0) -> Iterator[Batch]:
    """The endless training batches of a rank."""
    return dataset.train_batches(spec, plan_of(dataset, spec), rank=rank, epoch=epoch, first=first)


def one_of_each_format(folder: Path) -> Path:
    """Fill a data root with a source of each kind: `a.npz`, `idx`, `table.parquet`, `tables`, `lake`, `images`."""
    samples, labels = np.arange(40 * 64, dtype=np.uint8).reshape(40, 8, 8), np.arange(40) % 2
    np.savez(folder / "a.npz", x=samples, y=labels)
    (folder / "idx").mkdir()
    for name, values in (("images-idx3", samples), ("labels-idx1", labels.astype(np.uint8))):
        header = np.array([0x0800 + values.ndim, *values.shape], ">u4").tobytes()
        (folder / "idx" / f"train-{name}-ubyte").write_bytes(header + values.tobytes())
    table = pyarrow.table({"one": np.arange(40.0), "two": np.arange(40.0), "label": labels})
    for path in ("table.parquet", "tables/part-0.parquet", "tables/part-1.parquet", "lake/day=1/part-0.parquet"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, folder / path)
    for number, sample in enumerate(samples):
        class_folder = folder / "images" / "train" / ("even" if number % 2 else "odd")
        class_folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample).save(class_folder / f"{number}.png")
    return folder
