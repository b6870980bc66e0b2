"""What docker-compose.yml gives to its containers."""

from pathlib import Path
from typing import Any

import yaml

from jobs.runtime.settings import Settings

COMPOSE: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())
OF_THE_STORE = {
    "HORA_STORE", "HORA_STORE_OPTIONS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
}  # fmt: skip


def environment(service: str) -> dict[str, Any]:
    return dict(COMPOSE["services"][service].get("environment", {}))


def test_only_the_api_and_the_workers_know_the_store_beside_the_settings_of_the_stack() -> None:
    for service in COMPOSE["services"]:
        known = {name for name in environment(service) if name.startswith(("HORA_STORE", "AWS_"))}
        assert known == (OF_THE_STORE if service in ("api", "worker") else set()), service
    for name in OF_THE_STORE - {"AWS_DEFAULT_REGION"}:
        assert environment("worker")[name] == f"${{{name}:-}}", "what is not set stays so"
    assert environment("worker")["AWS_DEFAULT_REGION"].endswith(":-us-east-1}"), "S3 refuses an empty region"
    shared = environment("migrate").items()
    assert shared <= environment("api").items() & environment("worker").items()


def test_a_worker_has_time_to_save_and_to_copy_when_it_stops() -> None:
    stop_grace_s = float(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert stop_grace_s > 2 * Settings().save_grace_s
