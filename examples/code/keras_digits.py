"""Keras with Horovod: hora run --gpus 2 --set params.lr=0.01 --set params.epochs=5 -- python keras_digits.py

`horovod.tensorflow.keras` is not used: with Keras 3 its optimizer never averages gradients, without an error.
"""

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from hora_callback import HoraCallback
from sklearn.datasets import load_digits

from hora import run


class Averaged(keras.Sequential):
    """Averages the gradients of all ranks in each step."""

    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            predicted = self(images, training=True)
            loss = self.compute_loss(images, labels, predicted)
        variables = [variable.value for variable in self.trainable_variables]  # TensorFlow's own
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        self.optimizer.apply_gradients(list(zip(gradients, self.trainable_variables)))
        self._loss_tracker.update_state(loss)
        return self.compute_metrics(images, labels, predicted)


hvd.init()
images, labels = load_digits(return_X_y=True)
images = images.astype("float32") / 16
own = slice(hvd.rank(), 1500 // hvd.size() * hvd.size(), hvd.size())  # equally many on each rank
model = Averaged([
    keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax"),
])  # fmt: skip
rate = run.params.get("lr", 0.05) * hvd.size()
model.compile(keras.optimizers.SGD(rate, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
epochs_done = 0
if (folder := run.latest_checkpoint()) is not None:
    model.load_weights(folder / "model.weights.h5")
    epochs_done = int(folder.name.rpartition("-")[2])
epochs_done = int(hvd.broadcast_object(epochs_done))
hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)
model.fit(
    images[own], labels[own], batch_size=32, verbose=0, validation_data=(images[1500:], labels[1500:]),
    initial_epoch=epochs_done, epochs=int(run.params.get("epochs", 5)), callbacks=[HoraCallback()],
)  # fmt: skip
if hvd.rank() == 0:
    model.save_weights(run.artifacts / "model.weights.h5")
