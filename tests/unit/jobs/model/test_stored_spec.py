"""Specs in rows, which the version before reads too."""

from jobs.model.spec import Spec, spec_from
from jobs.model.stored_spec import stored_spec, with_defaults

FIELDS_OF_THE_FIRST_RELEASE = {
    "name", "dataset", "model", "gpus", "min_gpus", "device", "batch_per", "batch_size", "learning_rate", "lr_scaling",
    "base_batch", "warmup_epochs", "optimizer", "epochs", "steps_per_epoch", "early_stopping", "checkpoint",
    "precision", "placement", "priority", "project", "max_restarts", "time_limit_s", "stall_timeout_s", "seed",
    "labels", "probe",
}  # fmt: skip


def test_a_spec_without_later_fields_is_stored_as_the_first_release_did() -> None:
    plain = stored_spec(spec_from({"dataset": {"source": "digits"}}))
    chosen = stored_spec(spec_from({"dataset": {"source": "digits", "samples": 64}, "jit": True}))
    assert plain.keys() == FIELDS_OF_THE_FIRST_RELEASE == chosen.keys() - {"jit"}
    assert chosen["dataset"].keys() - plain["dataset"].keys() == {"samples"}
    assert "balance" not in plain["dataset"]


def test_defaults_of_later_fields_come_back() -> None:
    spec = spec_from({"dataset": {"source": "digits", "balance": True}, "gpu_model": "h100"})
    document = with_defaults(stored_spec(spec))
    assert document == spec.model_dump(mode="json")
    assert document.keys() == Spec.model_fields.keys()
    assert spec_from(document) == spec
