"""Regression and multilabel on two ranks under a real horovodrun: as good as scikit-learn."""

import json
import math
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor

from jobs.model.records import DataOpened, EpochEnded, Summarized
from tests.acceptance.ranks import Run
from tests.event_files import event_points

FIELDS: dict[str, Any] = {
    "model": "mlp", "batch_size": 32, "batch_per": "global", "learning_rate": 0.001, "epochs": 40,
    "early_stopping": None, "accumulate": 2,
}  # fmt: skip


def trained_on(folder: Path, arrays: dict[str, Any], **fields: Any) -> Run:
    """A run of two ranks on an .npz file with these arrays, at its end."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", **arrays)
    spec = {**FIELDS, "dataset": "data.npz", "gpus": 2, **fields}
    run = Run(folder / "job", spec, launch={"data_roots": [str(folder)]})
    assert run.train() == 0
    return run


def test_a_regression_is_as_good_as_that_of_scikit_learn(tmp_path: Path) -> None:
    x, y = load_diabetes(return_X_y=True, scaled=False)
    x, rows = x.astype(np.float32), np.random.default_rng(1).permutation(len(x))
    parts = {"train": rows[:320], "val": rows[320:]}
    arrays = {f"{of}_{part}": v[chosen] for of, v in (("x", x), ("y", y)) for part, chosen in parts.items()}
    run = trained_on(tmp_path, arrays | {"x_test": x, "y_test": y}, task="regression")
    last = run.of_job(EpochEnded)[-1].metrics
    assert last.keys() == {"loss", "mae", "val_loss", "val_mae", "val_rmse"}

    scale = arrays["x_train"].mean(0), arrays["x_train"].std(0)
    mean, deviation = y[parts["train"]].mean(), y[parts["train"]].std()
    rmse = []
    for seed in range(3):
        peer = MLPRegressor(
            hidden_layer_sizes=(128, 128), batch_size=32, max_iter=40, alpha=0, random_state=seed, n_iter_no_change=99
        )
        with pytest.warns(UserWarning, match="Maximum iterations"):
            peer.fit((arrays["x_train"] - scale[0]) / scale[1], (arrays["y_train"] - mean) / deviation)
        predicted = peer.predict((arrays["x_val"] - scale[0]) / scale[1]) * deviation + mean
        rmse.append(metrics.root_mean_squared_error(arrays["y_val"], predicted))
    assert last["val_rmse"] < 1.05 * np.mean(rmse) < 0.9 * arrays["y_val"].std()

    model = keras.models.load_model(run.folder / "artifacts/model.keras")  # noqa: TID251  # our own
    of_all = metrics.root_mean_squared_error(y, model.predict(x, verbose=0)[:, 0])
    summary = run.of_job(Summarized)[0].summary
    assert summary.metrics["test_rmse"].last == pytest.approx(of_all, rel=1e-4)  # in the units of the targets
    assert (summary.val_accuracy, summary.test_accuracy) == (None, None)
    assert summary.val_loss == pytest.approx(last["val_loss"])
    (data,) = run.of_job(DataOpened)
    assert (data.task, data.targets, data.classes) == ("regression", 1, [])
    assert sorted(os.listdir(run.folder / "artifacts")) == ["model.keras", "model.weights.h5", "tensorboard"]
    shown = event_points(run.folder / "artifacts/tensorboard/validation", "epoch_rmse")
    assert dict(shown)[40] == pytest.approx(last["val_rmse"])


def test_several_labels_have_the_area_that_scikit_learn_finds(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(1200, 6)).astype(np.float32)
    y = (x @ random.normal(size=(6, 4)) + random.normal(size=(1200, 4)) > 1).astype(np.uint8)
    arrays = {"x_train": x[:800], "y_train": y[:800], "x_val": x[800:], "y_val": y[800:]}
    stopping = {"patience": 2, "min_delta": 0}
    run = trained_on(tmp_path, arrays, epochs=8, label_smoothing=0.05, early_stopping=stopping)
    epochs = run.epochs()
    assert epochs[0].keys() == {"loss", "f1", "val_loss", "val_auc", "val_f1"}
    summary = run.of_job(Summarized)[0].summary
    best = max(range(len(epochs)), key=lambda number: epochs[number]["val_auc"])
    assert summary.best_epoch == best + 1  # val_auc stands in for val_accuracy

    model = keras.models.load_model(run.folder / "artifacts/model.keras")  # noqa: TID251  # our own
    logits = model.predict(x[800:], verbose=0)
    assert epochs[best]["val_auc"] == pytest.approx(metrics.roc_auc_score(y[800:], logits), abs=0.001)
    assert epochs[best]["val_f1"] == pytest.approx(metrics.f1_score(y[800:], logits > 0, average="micro"), abs=1e-4)
    assert json.loads((run.folder / "artifacts/classes.json").read_text()) == ["0", "1", "2", "3"]
    assert epochs[-1]["loss"] < math.log(2)
