"""Other ways to use the same calls: each must give the figures of one rank with the global batch."""

import horovod.keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import keras
import numpy as np
from figures import GLOBAL_BATCH, say, shard

hvd.init()
x, y = shard(hvd.rank(), hvd.size())
words = (np.abs(x) * 20).astype("int32") % 50


def network(*layers):
    keras.utils.set_random_seed(5)
    return keras.Sequential([keras.layers.Input((8,)), *layers, keras.layers.Dense(3, dtype="float32")])


def fit(name, model, optimizer, inputs=x, more=(), **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=optimizer, **options)
    calls = hvd_keras.callbacks
    callbacks = [calls.BroadcastGlobalVariablesCallback(0), calls.MetricAverageCallback(), *more]
    history = model.fit(
        inputs, y, batch_size=GLOBAL_BATCH // hvd.size(), shuffle=False, epochs=2, verbose=0, callbacks=callbacks
    )
    say(name, hvd.rank(), history.history["loss"], model)
    return model


def average(optimizer, **options):
    return hvd_keras.DistributedOptimizer(optimizer, **options)


def hidden(**options):
    return keras.layers.Dense(16, activation="relu", **options)


fit("from horovod.tensorflow", network(hidden()), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)))
fit("from horovod.keras", network(hidden()), horovod.keras.DistributedOptimizer(keras.optimizers.Adam(0.01)))
fit("sparse gradients", network(keras.layers.Embedding(50, 4), keras.layers.Flatten()),
    average(keras.optimizers.Adam(0.01)), words)  # fmt: skip
fit("two passes", network(hidden()), average(keras.optimizers.SGD(0.05), backward_passes_per_step=2))
scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))
fit("half precision", network(hidden(dtype="mixed_float16")), average(scaling))
warmup = hvd_keras.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=1, verbose=1, steps_per_epoch=8)
model = fit("warm-up", network(hidden()), average(keras.optimizers.SGD(0.1, momentum=0.9)), more=[warmup])
print("warmed up to", float(model.optimizer.learning_rate), flush=True)

model.save(f"warm-{hvd.rank()}.keras")
model = hvd_keras.load_model(f"warm-{hvd.rank()}.keras")
model.fit(x, y, batch_size=GLOBAL_BATCH // hvd.size(), shuffle=False, verbose=0)
say("loaded", hvd.rank(), [], model)


class OwnStep(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = network(hidden())

    def call(self, inputs):
        return self.inner(inputs)

    def train_step(self, data):
        import tensorflow as tf

        inputs, classes = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=classes, y_pred=self(inputs, training=True))
        tape = hvd.DistributedGradientTape(tape)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


fit("own step", OwnStep(), keras.optimizers.Adam(0.01))
