"""How far a run is: between epochs, and when it continues with another batch."""

import json

from trainer.state import Progress, State, Stopping


def test_run_with_another_global_batch_continues_at_the_same_place_in_the_data() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(epoch_step=10, sums=[5.0, 2.0], step=110))
    moved = state.on_plan(ranks=2, global_batch=128, steps_per_epoch=10).progress
    assert (moved.epoch_step, moved.sums, moved.step) == (5, [2.5, 1.0], 110)


def test_next_epoch_begins_with_empty_sums() -> None:
    progress = Progress(epoch=2, step=20, epoch_step=10, sums=[1.0], epoch_timed_samples=640, epoch_train_s=2.0)
    progress.begin_next_epoch()
    assert progress == Progress(epoch=3, step=20, timed_samples=640, train_s=2.0)


def test_a_checkpoint_of_before_there_were_tasks_can_be_read() -> None:
    state = State(ranks=1, global_batch=64, progress=Progress(step=3, epoch_step=3, sums=[1.5, 0.5]))
    document = json.loads(state.to_json())
    del document["progress"]["sums"]
    document["progress"] |= {"loss_sum": 1.5, "accuracy_sum": 0.5}
    assert State.from_json(json.dumps(document)) == state


def test_another_job_continues_with_times_of_its_own_and_is_not_over() -> None:
    def ended(*, stopped: bool) -> State:
        progress = Progress(epoch=9, step=80, timed_samples=5, train_s=3.0, wall_s=4.0)
        stopping = Stopping(best=0.9, best_epoch=5, wait=3, after_best_s=2.0, epochs_s=6.0, stopped=stopped)
        return State(ranks=1, global_batch=32, progress=progress, stopping=stopping)

    stopped = ended(stopped=True).for_next_job(lacks_best=False)
    assert stopped.progress == Progress(epoch=9, step=80)
    assert stopped.stopping == Stopping(best=0.9, best_epoch=5)
    assert ended(stopped=False).for_next_job(lacks_best=False).stopping.wait == 3, "its patience goes on"
    assert ended(stopped=False).for_next_job(lacks_best=True).stopping == Stopping()
