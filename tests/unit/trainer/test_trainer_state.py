"""How far a run is: between epochs, and when it continues with another batch."""

from trainer.state import Progress, State


def test_run_with_another_global_batch_continues_at_the_same_place_in_the_data() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(epoch_step=10, loss_sum=5.0, step=110))
    moved = state.on_plan(ranks=2, global_batch=128, steps_per_epoch=10).progress
    assert (moved.epoch_step, moved.loss_sum, moved.step) == (5, 2.5, 110)


def test_next_epoch_begins_with_empty_sums() -> None:
    progress = Progress(epoch=2, step=20, epoch_step=10, loss_sum=1.0, epoch_timed_samples=640, epoch_train_s=2.0)
    progress.begin_next_epoch()
    assert progress == Progress(epoch=3, step=20, timed_samples=640, train_s=2.0)
