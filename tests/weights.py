"""Networks that start from given weights, for tests."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from jobs.model.launch import Launch
from jobs.model.spec import Spec, spec_from
from tests.networks import equal
from trainer.data.interfaces import Facts
from trainer.models import build_model, load_initial_weights


def spec(name: str, weights: str = "none", *, seed: int = 1, **fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "seed": seed, "model": {"name": name, "weights": weights, **fields}})


def launch(folder: Path, model_spec: Spec, *, job_weights: Path | None = None) -> Launch:
    places = ("cache_dir", "records_dir", "logs_dir", "checkpoints_dir", "artifacts_dir", "stop_path")
    return Launch(
        job_id="1aagd4bvydha",
        attempt=1,
        spec=model_spec,
        gpus=1,
        device="cpu",
        threads_per_rank=1,
        data_roots=[str(folder)],
        weights_dir=str(folder / "weights"),
        job_weights=str(job_weights) if job_weights else None,
        **{place: str(folder / place) for place in places},
    )


def started_model(folder: Path, model_spec: Spec, data: Facts, **fields: Any) -> keras.Model:
    """The network of the spec with its initial weights."""
    model = build_model(model_spec, data)
    load_initial_weights(model, model_spec, launch(folder, model_spec, **fields))
    return model


def values(model: keras.Model, *, head: bool = True) -> list[np.ndarray]:
    return [weight.numpy() for weight in model.weights if head or not weight.path.startswith("logits/")]


def all_equal(model: keras.Model, other: keras.Model, *, head: bool = True) -> bool:
    return all(equal(values(model, head=head), values(other, head=head)))
