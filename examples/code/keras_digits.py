"""Keras with Horovod: hora run --gpus 2 --set params.lr=0.01 --set params.epochs=5 -- python keras_digits.py"""

import horovod.tensorflow.keras as hvd
import keras
from hora_callback import HoraCallback
from sklearn.datasets import load_digits

from hora import run

hvd.init()
images, labels = load_digits(return_X_y=True)
images = images.astype("float32") / 16
own = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())  # equally many on each rank
model = keras.Sequential([
    keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax"),
])  # fmt: skip
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(run.params.get("lr", 0.05) * hvd.size(), momentum=0.9))
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
epochs_done = 0
if (folder := run.latest_checkpoint()) is not None:
    model.load_weights(folder / "model.weights.h5")
    epochs_done = int(folder.name.rpartition("-")[2])
epochs_done = int(hvd.broadcast(epochs_done, root_rank=0))
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), HoraCallback()]
model.fit(
    images[own], labels[own], batch_size=32, verbose=0, validation_data=(images[1500:], labels[1500:]),
    initial_epoch=epochs_done, epochs=int(run.params.get("epochs", 5)), callbacks=callbacks,
)  # fmt: skip
if hvd.rank() == 0:
    model.save_weights(run.artifacts / "model.weights.h5")
