"""TensorFlow 2 with a loop of its own, as Horovod's documentation writes it."""

import horovod.tensorflow as hvd
import tensorflow as tf
from figures import GLOBAL_BATCH, say, shard

hvd.init()

gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(7)
dataset = tf.data.Dataset.from_tensor_slices(shard(hvd.rank(), hvd.size())).batch(GLOBAL_BATCH // hvd.size())
model = tf.keras.Sequential([
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(3, activation="softmax"),
])  # fmt: skip
loss = tf.losses.SparseCategoricalCrossentropy()
opt = tf.optimizers.Adam(0.01)
checkpoint = tf.train.Checkpoint(model=model, optimizer=opt)


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        probs = model(images, training=True)
        loss_value = loss(labels, probs)
    tape = hvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables(), root_rank=0)
    return loss_value


losses = []
for epoch in range(3):
    for batch, (images, labels) in enumerate(dataset):
        losses.append(float(hvd.allreduce(training_step(images, labels, epoch == 0 and batch == 0))))
if hvd.rank() == 0:
    checkpoint.save("./checkpoints/tape")
say("gradient_tape", hvd.rank(), losses, model)
