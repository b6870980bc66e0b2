"""What must be as in the job from which a job continues."""

from typing import Any

import pytest

from jobs.model.origins import unlike
from jobs.model.spec import spec_from


@pytest.mark.parametrize(
    ("own", "before", "problem"),
    [
        ({}, {}, None),
        ({"weights": "imagenet"}, {}, ("model.weights", "none", "imagenet")),
        ({}, {"weights": "imagenet"}, ("model.weights", "imagenet", "none")),
        ({"weights": "imagenet", "freeze_base": False}, {}, None),  # the checkpoint replaces them
        ({"weights": "imagenet"}, {"weights": "job:0123456789ab"}, None),
        (
            {"weights": "imagenet", "freeze_base": False},
            {"weights": "imagenet", "freeze_base": True},
            ("model.freeze_base", "true", "false"),
        ),
    ],
)
def test_the_weights_are_named_where_they_decide_whether_the_base_is_frozen(
    own: dict[str, Any], before: dict[str, Any], problem: tuple[str, str, str] | None
) -> None:
    spec, spec_before = (
        spec_from({"dataset": "digits", "batch_size": 32, "gpus": 1, "model": {"name": "mobilenet_v2"} | model})
        for model in (own, before)
    )
    found = [(each.field, each.message.split()[2], each.received) for each in unlike(spec, spec_before, "0123456789ab")]
    assert found == ([] if problem is None else [problem])
