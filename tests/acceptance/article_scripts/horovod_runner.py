"""A function for HorovodRunner, as a notebook of Databricks has it."""


def train_hvd(learning_rate, epochs):
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
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adadelta(learning_rate=learning_rate))
    model.compile(optimizer=optimizer, loss="categorical_crossentropy", metrics=["accuracy"])
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    history = model.fit(
        x, keras.utils.to_categorical(y, 3), batch_size=GLOBAL_BATCH // hvd.size(), callbacks=callbacks, epochs=epochs,
        verbose=2, shuffle=False,
    )  # fmt: skip
    say("horovod_runner", hvd.rank(), history.history["loss"], model)
    return history.history["loss"][-1]


from sparkdl import HorovodRunner  # noqa: E402 - the next cell of the notebook

hr = HorovodRunner(np=2)
print("returned", hr.run(train_hvd, learning_rate=0.5, epochs=3), flush=True)
