"""Every chart and alert in monitoring/ uses figures that /metrics has."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from jobs.db.engine import Sessions
from tests.integration.api.busy import a_busy_cluster, set_metrics

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana/dashboards/hora.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]  # fmt: skip
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OWN_LABELS = {"job", "instance", "le"}  # those of Prometheus


def panels() -> Iterator[dict[str, Any]]:
    yield from DASHBOARD["panels"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in DASHBOARD["templating"]["list"]:
        yield re.sub(r"label_values\((.*), (\w+)\)", r"count by (\2) (\1)", variable["query"]["query"])
    yield from (rule["expr"] for rule in RULES)


@pytest.fixture
def labels_by_metric(api: TestClient, submit_job: Callable[..., str], sessions: Sessions) -> dict[str, set[str]]:
    """The labels of every metric of a busy cluster, by its name in a query."""
    set_metrics(sessions, a_busy_cluster(sessions, submit_job).job_id, val_iou=0.5)
    labels: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(api.get("/metrics").text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_charts_and_alerts_use_only_existing_figures_and_labels(labels_by_metric: dict[str, set[str]]) -> None:
    metric_count = label_count = 0
    for expression in expressions():
        names = re.findall(r"\bhora_\w+", expression)
        assert [name for name in names if name not in labels_by_metric] == [], expression
        metric_count += len(names)
        for name, selectors in re.findall(r"\b(hora_\w+|up)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selectors))
            assert labels <= labels_by_metric[name] | OWN_LABELS, expression
            label_count += len(labels)
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        for labels in (set(group.replace(" ", "").split(",")) for group in grouped):
            assert labels <= {"le"}.union(*(labels_by_metric[name] for name in names)), expression
            label_count += len(labels)
    assert min(metric_count, label_count) > 50

    told_by = [(target["expr"], target["legendFormat"]) for panel in panels() for target in panel.get("targets", [])]
    told_by += [(rule["expr"], " ".join(rule["annotations"].values()).replace("$labels.", "")) for rule in RULES]
    for expression, sentence in told_by:
        names = re.findall(r"\bhora_\w+", expression)
        named_labels = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", sentence))
        assert named_labels <= set().union(*(labels_by_metric[name] for name in names)), (expression, sentence)


def test_the_files_are_where_the_containers_look_for_them() -> None:
    services = COMPOSE["services"]
    monitoring = {name for name, service in services.items() if "profiles" in service}
    assert monitoring == {"prometheus", "grafana"}
    inside: dict[str, Path] = {}
    for name in monitoring:
        assert services[name]["profiles"] == ["monitoring"]
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])
        for volume in services[name]["volumes"]:
            source, target, *mode = volume.split(":")
            if source.startswith("."):
                assert (ROOT / source).exists()
                assert mode == ["ro"]
                inside[target] = ROOT / source
            else:
                assert source in COMPOSE["volumes"]
    assert inside["/etc/prometheus/prometheus.yml"] == FOLDER / "prometheus.yml"
    scraping = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (target,) = scraping["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target.partition(":")[0] in services
    assert [f"/etc/prometheus/{name}" in inside for name in scraping["rule_files"]] == [True]
    (provider,) = yaml.safe_load((FOLDER / "grafana/provisioning/dashboards/hora.yml").read_text())["providers"]
    assert inside[provider["options"]["path"]] == FOLDER / "grafana/dashboards"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (inside[str(Path(home).parent)] / Path(home).name).exists()
