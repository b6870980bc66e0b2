"""Prometheus figures of live jobs, GPUs and hosts: only the newest, and valid in both formats."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fastapi.testclient import TestClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, null, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Job, Slot
from jobs.lifecycle import leases
from jobs.model.states import EndReason
from jobs.runtime.space import FolderSpace
from jobs.scheduling import registration
from tests.integration.api import busy
from tests.integration.api.starting_rows import a_host
from tests.integration.api.test_metrics import Figures, scrape

Submit = Callable[..., str]
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def starting(figures: Figures, prefix: str) -> Figures:
    return {name: samples for name, samples in figures.items() if name.startswith(prefix)}


def test_a_busy_cluster_has_figures_of_jobs_gpus_hosts_and_projects_without_names_of_people(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    secret: dict[str, Any] = {"name": "a-secret-name", "labels": {"team": "a-secret-label"}}
    job_id = busy.a_busy_cluster(sessions, lambda: submit_job(**secret)).job_id
    submit_job(**secret)
    figures = scrape(api)
    progress = {
        "slots": 2, "epoch": 3, "epochs": 10, "step": 25, "steps": 100, "remaining_seconds": 42.5, "loss": 0.5,
        "accuracy_ratio": 0.75, "val_loss": 0.625, "val_accuracy_ratio": 0.875, "samples_per_second": 640,
        "data_wait_ratio": 0.25, "allreduce_ratio": 0.125,
    }  # fmt: skip
    of_job = {f"hora_job_{name}": {(job_id, "default"): value} for name, value in progress.items()}
    assert starting(figures, "hora_job_") == of_job
    reading = {
        "utilization_ratio": 0.93, "memory_used_bytes": 2**30, "memory_bytes": 2**35, "power_watts": 310.5,
        "temperature_celsius": 61,
    }  # fmt: skip
    slots = [("hb", "0", job_id), ("hb", "1", job_id)]  # the other two are free
    assert starting(figures, "hora_gpu_") == {
        f"hora_gpu_{name}": dict.fromkeys(slots, value) for name, value in reading.items()
    }
    of_hosts = {
        "up": 1, "drained": 0, "no_space": 0, "no_store": 0, "cpu_ratio": 0.5,
        "memory_used_bytes": 2**33, "memory_bytes": 2**36,
        "network_received_bytes_per_second": 100, "network_sent_bytes_per_second": 200,
        "disk_read_bytes_per_second": 300, "disk_written_bytes_per_second": 400,
    }  # fmt: skip
    assert starting(figures, "hora_host_") == {
        f"hora_host_{name}": {("ha",): value, ("hb",): value} for name, value in of_hosts.items()
    }
    assert figures["hora_webhook_deliveries"] == {("pending",): 3, ("failed",): 1}
    of_projects = starting(figures, "hora_project_")
    assert of_projects.pop("hora_project_slot_seconds")["vision",] == 0
    assert of_projects == {
        "hora_project_slots": {("default",): 2, ("vision",): 0},
        "hora_project_slots_limit": {("vision",): 8},
        "hora_project_queued_jobs": {("default",): 1, ("vision",): 0},
        "hora_project_queued_jobs_limit": {("vision",): 100},
        "hora_project_slot_seconds_limit": {("vision",): 3600 * 50},
    }
    page = api.get("/metrics", headers={"Authorization": ""}).text
    assert "a-secret" not in page
    assert '"admin"' not in page
    of_jobs = re.findall(r"^hora_job_\w+\{(.*)\}", page, re.MULTILINE)
    assert {name for labels in of_jobs for name in re.findall(r'(\w+)="', labels)} == {"job_id", "project"}

    last = {"val_mae": 0.25, "z/é": 1.0, "wer": None} | {f"m{number:02}": float(number) for number in range(30)}
    metrics = {name: {"last": value, "best": 9.0, "best_epoch": 1} for name, value in last.items()}
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(metrics=metrics))
        session.execute(update(Slot).values(reading=null()))
        session.execute(update(Host).where(Host.name == "ha").values(no_store="it is not mounted"))
    changed = scrape(api)
    assert changed["hora_job_metric"][job_id, "default", "val_mae"] == 0.25
    assert [name for *_, name in changed["hora_job_metric"]] == ["val_mae", *(f"m{number:02}" for number in range(19))]
    assert starting(changed, "hora_gpu_").keys() == {"hora_gpu_memory_bytes"}  # they were never read
    assert changed["hora_host_no_store"] == {("ha",): 1, ("hb",): 0}
    hosts = api.get("/v1/hosts").json()["items"]
    assert [host["no_store"] for host in hosts] == ["it is not mounted", None]


def test_folders_have_figures_and_a_lost_host_exports_only_its_state(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    busy.a_busy_cluster(sessions, submit_job)
    measured = [FolderSpace(("runs", "cache"), 5, 9, 7, 3), FolderSpace(("datasets",), 11, 9)]
    with sessions.begin() as session:
        registration.beat(session, "ha", folders=measured)
        lost = {"heartbeat_at": func.now() - timedelta(minutes=1), "drained_at": func.now()}
        session.execute(update(Host).where(Host.name == "hb").values(**lost))
    figures = scrape(api)
    assert starting(figures, "hora_folder_") == {
        "hora_folder_free_bytes": {("ha", "runs"): 5, ("ha", "cache"): 5, ("ha", "datasets"): 11},
        "hora_folder_floor_bytes": {("ha", "runs"): 9, ("ha", "cache"): 9, ("ha", "datasets"): 9},
        "hora_folder_free_files": {("ha", "runs"): 7, ("ha", "cache"): 7},
        "hora_folder_floor_files": {("ha", "runs"): 3, ("ha", "cache"): 3},
    }
    assert figures["hora_host_no_space"]["ha",] == 1
    assert figures["hora_host_up"] == {("ha",): 1, ("hb",): 0}
    assert figures["hora_host_drained"] == {("ha",): 0, ("hb",): 1}
    assert figures["hora_host_cpu_ratio"] == {("ha",): 0.5}
    assert starting(figures, "hora_gpu_") == {}


def test_unknown_values_are_not_exported(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    a_host(sessions, "hb", kind="gpu")
    lease = busy.a_live_attempt(sessions, submit_job())
    assert starting(scrape(api), "hora_job_") == {"hora_job_slots": {(lease.job_id, "default"): 1}}
    busy.set_progress(sessions, lease.job_id, **{**busy.PROGRESS, "eta_s": None, "metrics": {"loss": None}})
    busy.an_epoch(sessions, lease, step=10, epoch_s=0.0, data_wait_s=0.0)
    busy.readings(sessions, "hb", percent=None, memory_bytes=None, power_w=20.0, is_lost=False)
    figures = scrape(api)
    assert {"hora_job_step", "hora_gpu_power_watts", "hora_gpu_memory_bytes"} <= figures.keys()
    absent = ("hora_job_remaining_seconds", "hora_job_loss", "hora_job_val_loss", "hora_job_data_wait_ratio",
              "hora_job_allreduce_ratio", "hora_gpu_utilization_ratio", "hora_gpu_memory_used_bytes")  # fmt: skip
    assert figures.keys().isdisjoint(absent)


def test_a_new_attempt_does_not_export_values_of_the_previous_one(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    lease = busy.a_busy_cluster(sessions, submit_job)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.HOST_LOST)
        leases.release(session, lease.attempt_id)
        session.execute(update(Job).values(not_before=None))
    assert starting(scrape(api), "hora_job_") == starting(scrape(api), "hora_gpu_") == {}  # it waits
    again = busy.a_live_attempt(sessions, lease.job_id, slots=(2, 3))
    assert "hora_job_data_wait_ratio" not in scrape(api)
    busy.an_epoch(sessions, again, step=12, epoch_s=2.0, data_wait_s=1.0)
    figures = scrape(api)
    assert figures["hora_job_data_wait_ratio"] == {(lease.job_id, "default"): 0.5}
    assert {slot for _, slot, _ in figures["hora_gpu_power_watts"]} == {"2", "3"}


def test_both_formats_are_valid_for_prometheus(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    """The rules of the specification that its parser holds."""
    busy.a_busy_cluster(sessions, submit_job)
    for odd in ('application/openmetrics-text; version="', "application/openmetrics-text; version=1.x,", ";"):
        assert api.get("/metrics", headers={"Accept": odd}).headers["Content-Type"].startswith("text/plain")
    for accept, parse in (("text/plain", text_string_to_metric_families), (OPENMETRICS, openmetrics_families)):
        answer = api.get("/metrics", headers={"Accept": accept})
        assert answer.headers["Content-Type"].startswith(accept.partition(";")[0])
        families = [family for family in parse(answer.text) if family.name.startswith("hora_")]
        names = [family.name for family in families]
        assert len(names) == len(set(names)) > 30
        helped = {line.split()[2] for line in answer.text.splitlines() if line.startswith("# HELP")}
        assert {name.removesuffix("_total") for name in helped} >= set(names)
        for family in families:
            series = [(sample.name, *sorted(sample.labels.items())) for sample in family.samples]
            assert len(series) == len(set(series)), f"{family.name} has a series twice"
            assert family.documentation


def test_an_odd_host_name_is_escaped_and_an_old_sample_is_not_exported(api: TestClient, sessions: Sessions) -> None:
    odd = 'a "b" \\ c\nhora_host_up{host="d"} 1'
    a_host(sessions, odd)
    busy.host_sample(sessions, odd, age_s=600, cpu_percent=50.0)
    figures = scrape(api)
    assert figures["hora_host_up"] == {(odd,): 1}
    assert "hora_host_cpu_ratio" not in figures
