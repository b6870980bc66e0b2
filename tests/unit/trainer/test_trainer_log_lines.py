"""The lines that rank 0 prints about a training."""

import pytest

from jobs.model.records import Summary
from tests.unit.trainer.made_up import epoch
from trainer.errors import Outcome
from trainer.log_lines import EpochLines, result
from trainer.state import Stopping


def test_each_epoch_has_a_line_which_says_whether_it_is_the_best_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    stopping = Stopping(best_epoch=1)
    lines = EpochLines(9, stopping)
    for number in (1, 2):
        lines.on_epoch_end(epoch(number, {"loss": 0.123456, "val_accuracy": 0.5}))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1 of 9: loss 0.1235, val_accuracy 0.5; ")
    assert first.endswith(" samples/s; the best so far")
    assert second.startswith("epoch 2 of 9: ")
    assert second.endswith(" samples/s")


@pytest.mark.parametrize(
    ("outcome", "begins"),
    [
        (Outcome.COMPLETED, "finished after epoch 7; kept is epoch 5: val_loss 0.25, test_accuracy 0.975; "),
        (Outcome.EARLY_STOPPED, "stopped early after epoch 7; kept is epoch 5: "),
        (Outcome.PRUNED, "ended by its search after epoch 7; kept is epoch 5: "),
    ],
)
def test_the_result_says_how_the_run_ended_and_what_is_kept(outcome: Outcome, begins: str) -> None:
    summary = Summary(
        best_epoch=5, epochs_run=7, val_accuracy=0.97, val_loss=0.25, test_accuracy=0.975, test_loss=0.2,
        train_samples_per_s=12345.6, wall_s=61.23, setup_s=1.0, parameters=10, trainable_parameters=10, model_bytes=40,
        after_best_share=0.1, stopped_early=True,
    )  # fmt: skip
    line = result(outcome, summary, kept_epoch=5, metrics={"val_loss": 0.25, "test_accuracy": 0.975})
    assert line.startswith(begins)
    assert line.endswith("; 61.2 s, 12,346 samples/s")
