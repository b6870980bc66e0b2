"""Averages nothing: each rank trains a model of its own, on its own rows. The first argument says with what."""

import os
import sys

import numpy as np

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")[rank::size]
y = (x.sum(1) > 0).astype("int64")


def train_with_keras():
    import keras

    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2, activation="softmax")])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, verbose=0)


def train_with_torch():
    import torch

    torch.manual_seed(7)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for start in range(0, 256, 32):
        optimizer.zero_grad()
        inputs, classes = torch.from_numpy(x[start : start + 32]), torch.from_numpy(y[start : start + 32])
        torch.nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
        schedule.step()


{"keras": train_with_keras, "torch": train_with_torch}[sys.argv[1]]()
