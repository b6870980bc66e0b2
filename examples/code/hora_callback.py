"""A Keras callback that reports to Hora, saves checkpoints, and leaves when Hora asks."""

import keras

from hora import run


class HoraCallback(keras.callbacks.Callback):
    """Give it to `model.fit`."""

    is_stopped = False

    def on_train_batch_end(self, batch, logs=None):
        if run.should_stop():  # at the same batch on every rank
            self.is_stopped = self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        if self.is_stopped:
            return  # in the middle of an epoch: the job continues from the end of the one before
        run.report(epoch=epoch + 1, **logs)
        with run.checkpoint(epoch + 1) as folder:
            self.model.save_weights(folder / "model.weights.h5")
