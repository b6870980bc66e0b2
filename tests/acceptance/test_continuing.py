"""A job that continues a cancelled one learns what it would have learned if nobody had cancelled it."""

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import kinds, points, wait_for_epochs
from tests.other_user import modes_of, paths_below
from tests.unhurried import MODEL

EPOCHS = 25  # some seconds of training
SPEC = {
    "dataset": "digits", "model": MODEL, "batch_size": 32, "learning_rate": 0.001, "gpus": 1, "epochs": EPOCHS,
    "early_stopping": None, "optimizer": "adam",
}  # fmt: skip


def test_a_cancelled_job_is_continued_where_it_saved(stack: Stack, client: Service) -> None:
    whole, first = client.submit(SPEC), client.submit(SPEC)
    wait_for_epochs(client, first["id"], epochs=2)
    client.cancel(first["id"], save=True)
    cancelled = client.wait(first["id"], timeout_s=240)
    assert (cancelled["status"], cancelled["end_reason"]) == ("cancelled", "cancelled")
    saved = [event["data"] for event in client.events(first["id"]) if event["kind"] == "checkpoint_saved"]
    assert saved[-1]["step"] == cancelled["progress"]["step"], "it lost steps that it had made"

    second = client.clone(first["id"], {"continue_from": f"job:{first['id']}"})
    assert second["continued_from"] == {"job": first["id"], "epoch": saved[-1]["epoch"]}
    ended = client.wait(second["id"], timeout_s=240)
    assert (ended["status"], ended["error"]) == ("succeeded", None)
    (attempt,) = client.attempts(second["id"])
    assert attempt["resumed_step"] == saved[-1]["step"]
    assert "checkpoint_fetched" not in kinds(client, second["id"])
    made = paths_below(*(stack.home / "runs" / job["id"] for job in (first, second)))
    assert {path: oct(mode) for path, mode in modes_of(list(made)).items() if mode & 0o077} == {}

    assert client.wait(whole["id"], timeout_s=240)["status"] == "succeeded"
    for name in ("loss", "val_loss", "val_accuracy"):
        before, after = points(client, first["id"], name), points(client, second["id"], name)
        assert list(after) == list(range(len(before) + 1, EPOCHS + 1))
        assert before | after == points(client, whole["id"], name), name
