"""A user's script with mistakes. A type checker refuses each line with a comment, or calls the comment unused."""

import hora
from hora import Client


def train(rate: float) -> float:
    return rate


def session(client: Client) -> None:
    client.jobs.submit(dataset="digits", epcohs=1)  # type: ignore[call-arg]
    client.jobs.submit(dataset="digits", epochs="1")  # type: ignore[arg-type]
    client.jobs.submit(dataset="digits", lr_scaling="lineal")  # type: ignore[arg-type]
    client.jobs.submit(dataset={"source": "digits", "fracton": 0.5})  # type: ignore[arg-type]
    client.jobs.submit(checkpoint={"every_epoch": 2})  # type: ignore[typeddict-unknown-key]
    client.jobs.submit(dataset="digits", optimizer={"name": "sdg"})  # type: ignore[arg-type]
    client.jobs.dry_run(dataset="digits", gpu=1)  # type: ignore[call-arg]
    client.jobs.run(train, args=(0.1,), command=["python"])  # type: ignore[call-arg]
    client.jobs.list(statsu="failed")  # type: ignore[call-arg]
    job = client.jobs.get("1aag")
    job.update(prio=80)  # type: ignore[call-arg]
    job.clone(epcohs=1)  # type: ignore[call-arg]
    assert job.stauts == "queued"  # type: ignore[attr-defined]
    client.studies.submit(base={}, girds={})  # type: ignore[call-arg]
    client.datasets.register(name="x", source="/x", vaildation=0.1)  # type: ignore[call-arg]
    client.projects.create("vision", max_slot=4)  # type: ignore[call-arg]
    hora.Cleint()  # type: ignore[attr-defined]
