"""A regression with NumPy alone: hora run --set goal.metric=val_mae --set params.lr=0.1 -- python regression.py"""

import json

import numpy as np

from hora import run

EPOCHS, BATCH = 20, 64
random = np.random.default_rng(seed=7)
inputs = random.normal(size=(2000, 8))
targets = inputs @ random.normal(size=8) + random.normal(scale=0.1, size=2000)
train, held_out = slice(0, 1600), slice(1600, None)
weights, epochs_done = np.zeros(8), 0
if (folder := run.latest_checkpoint()) is not None:
    saved = json.loads((folder / "state.json").read_text())
    weights, epochs_done = np.array(saved["weights"]), saved["epoch"]
for epoch in range(epochs_done + 1, EPOCHS + 1):
    for start in range(0, 1600, BATCH):
        batch = slice(start, start + BATCH)
        errors = inputs[train][batch] @ weights - targets[train][batch]
        weights -= run.params.get("lr", 0.1) * inputs[train][batch].T @ errors / len(errors)
        run.report(step=(epoch - 1) * 25 + start // BATCH + 1, epoch=epoch, mse=np.mean(errors**2))
    errors = inputs[held_out] @ weights - targets[held_out]
    run.report(epoch=epoch, val_mae=np.mean(np.abs(errors)))
    run.histogram("val/errors", errors, step=epoch)  # on the tab Media of the job's page
    run.progress(epoch, EPOCHS)
    with run.checkpoint(epoch) as folder:
        (folder / "state.json").write_text(json.dumps({"weights": list(weights), "epoch": epoch}))
    if run.should_stop():
        break
