"""A loop in TensorFlow 2 with Horovod: hora run --gpus 2 --set params.lr=0.1 -- python tensorflow2_digits.py"""

import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

from hora import run

STEPS = 200
hvd.init()
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
own = slice(hvd.rank(), 1500, hvd.size())
data = tf.data.Dataset.from_tensor_slices((images[own], labels[own]))
batches = iter(data.shuffle(1500, seed=1).repeat().batch(32))
weights, bias = tf.Variable(tf.zeros((64, 10))), tf.Variable(tf.zeros(10))
first = tf.Variable(0, dtype=tf.int64)
state = tf.train.Checkpoint(weights=weights, bias=bias, step=first)
if (folder := run.latest_checkpoint()) is not None:
    state.read(str(folder / "state")).assert_consumed()
hvd.broadcast_variables([weights, bias, first], root_rank=0)
rate = run.params.get("lr", 0.1) * hvd.size()


@tf.function
def train(batch, of_batch):
    with tf.GradientTape() as tape:
        logits = batch @ weights + bias
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(of_batch, logits))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, [weights, bias])
    for variable, gradient in zip((weights, bias), gradients):
        variable.assign_sub(rate * gradient)
    return loss


for step in range(int(first) + 1, STEPS + 1):
    with run.phase("data"):
        batch, of_batch = next(batches)
    loss = train(batch, of_batch)
    run.report(step=step, loss=loss)
    stopping = run.should_stop()
    if stopping or step % 50 == 0:
        right = tf.argmax(images[1500:] @ weights + bias, axis=1) == labels[1500:]
        run.report(epoch=-(-step // 50), val_accuracy=tf.reduce_mean(tf.cast(right, tf.float32)))
        with run.checkpoint(step) as folder:
            first.assign(step)
            state.write(str(folder / "state"))
    if stopping:
        break
