"""Keras with compile and fit, as Horovod's documentation and the articles write it."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from figures import GLOBAL_BATCH, say, shard
from tensorflow import keras

hvd.init()

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

x, y = shard(hvd.rank(), hvd.size())
keras.utils.set_random_seed(7 + hvd.rank())  # the ranks begin with different weights: those of rank 0 are broadcast
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)])
scaled_lr = 0.01
opt = hvd.DistributedOptimizer(keras.optimizers.Adam(scaled_lr))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(loss=loss, optimizer=opt, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=scaled_lr, multiplier=0.1, start_epoch=2),
    keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=10, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("./checkpoint-{epoch}.keras"))
history = model.fit(
    x, y, batch_size=GLOBAL_BATCH // hvd.size(), epochs=3, shuffle=False, callbacks=callbacks,
    verbose=2 if hvd.rank() == 0 else 0,
)  # fmt: skip
say("keras_fit", hvd.rank(), history.history["loss"], model)

if hvd.rank() == 0:  # without Horovod the file is that of a usual model
    again = keras.models.load_model("./checkpoint-3.keras")
    print("loaded", type(again.optimizer) is keras.optimizers.Adam, int(again.optimizer.iterations), flush=True)
