"""A user's script. A type checker takes each line."""

from collections.abc import Iterator
from typing import Any, assert_type

from hora import Client, EndNews, EndReason, Items, Job, JobState, Metrics, Pages, Spec, Status, Study


def train(rate: float) -> dict[str, float]:
    return {"rate": rate}


def session(client: Client, options: dict[str, Any]) -> None:
    job = client.jobs.submit(
        dataset={"source": "digits", "image_size": (28, 28), "augment": ["flip_horizontal", {"name": "crop"}]},
        model="lenet5",
        optimizer={"name": "sgd", "momentum": 0.9},
        early_stopping=None,
        class_weights={"1": 2},
        labels={"team": "vision"},
    )
    assert_type(job, Job)
    assert_type(job.url, str)
    assert_type(job.status, Status)
    client.jobs.submit(options, epochs=3, idempotency_key="night-run-7")
    client.jobs.submit(Spec.model_validate({"dataset": "digits"}), **options)
    job.update(priority=80, labels={"team": None}).clone(dataset={"fraction": 0.5})
    assert_type(client.jobs.run(train, gpus=2, args=(0.1,), params={"lr": 0.1}), dict[str, float])
    assert_type(client.jobs.list(status="running"), Pages[Job])
    assert_type(client.jobs.list()[:10], Items[Job])
    assert_type(client.jobs.list()[0], Job)
    one_by_one: Iterator[Job] = client.jobs.list()
    assert_type(next(one_by_one), Job)
    assert_type(job.metrics(name="loss"), Metrics)
    assert_type(client.studies.submit(base={"dataset": "digits"}, grid={"gpus": [1, 2]}), Study)
    for news in job.follow():
        if isinstance(news, JobState):
            assert_type(news.attempt, int)
        elif isinstance(news, EndNews):
            assert_type(news.end_reason, EndReason | None)
