"""The tables in docs/ against the code that they describe, the code that pages name, and the links between them."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.insight.studies.grid import cells_of
from jobs.insight.studies.space import ends_of
from jobs.lifecycle.admission import unsupported
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.spec import parse_spec, spec_from
from jobs.model.states import NEXT, EventKind
from jobs.model.yaml_text import load_yaml
from jobs.telemetry.sampled_metrics import SAMPLED_METRICS
from jobs.views.studies import StudySpec
from tests.code_paths import missing_code
from tests.command_table import commands
from tests.field_tables import pages

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(path for path in ROOT.glob("examples/*") if path.is_file())
STUDIES = sorted(ROOT.glob("examples/studies/*"))


def rows(page: str, heading: str, first_cell: str = "") -> list[list[str]]:
    """The cells of the first table below `heading` that begins with `first_cell`, without its two head lines."""
    _, _, below = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")
    table = re.search(rf"^\| ?{first_cell}.*\n(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None, f"no table below {heading!r} in {page}"
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table.group().splitlines()[2:]]


def code(cell: str) -> list[str]:
    """The texts between backticks."""
    return re.findall(r"`([^`]*)`", cell)


def test_documented_transitions_and_events_match_the_code() -> None:
    assert {code(status)[0]: set(code(to)) for status, to in rows("states.md", "Transitions")} == {
        status.value: {to.value for to in ends} for status, ends in NEXT.items()
    }
    _, _, below = (ROOT / "docs/states.md").read_text().partition("\n## Events\n")
    assert code(below) == [kind.value for kind in EventKind]


@pytest.mark.parametrize(("path", "page"), pages().items(), ids=lambda one: one.name if isinstance(one, Path) else "")
def test_generated_tables_of_fields_settings_and_end_reasons_are_up_to_date(path: Path, page: str) -> None:
    assert path.read_text() == page, "python -m tests.field_tables writes it anew"


def test_documented_sampled_metrics_match_the_code() -> None:
    documented = [
        (code(metric)[0], subject, unit, code(gauge), meaning)
        for metric, subject, unit, gauge, meaning in rows("telemetry.md", "What is sampled", first_cell="metric")
    ]
    assert documented == [
        (metric.name, metric.subject, metric.unit, [metric.gauge.name] if metric.gauge else [], f"{metric.meaning}.")
        for metric in SAMPLED_METRICS
    ]


def test_every_decision_is_listed_by_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("[0-9]*.md"))
    titles = [path.read_text().partition("\n")[0].removeprefix("# ") for path in pages]
    listed = re.findall(r"^- \[(.*)\]\((.*)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == [(title, path.name) for title, path in zip(titles, pages, strict=True)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_code_and_commands_that_a_page_names_exist(page: Path) -> None:
    text, commands_by_path = page.read_text(), dict(commands())
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []
    assert missing_code(text) == []
    for words in shown_commands(text):
        if words[0] in ("--install-completion", "--show-completion"):
            continue
        path = next((path for path in (tuple(words[:2]), tuple(words[:1])) if path in commands_by_path), None)
        assert path is not None, words
        options = {text for option in commands_by_path[path].params for text in (*option.opts, *option.secondary_opts)}
        assert {word for word in words if re.fullmatch(r"--[a-z-]+|-[a-z]", word)} <= options | {"--help"}, words


def test_missing_code_is_detected() -> None:
    there = "`worker/attempt/ending.py` `hora.Client` `jobs.model.states.EndReason.outcome` `jobs/scheduling/`"
    assert missing_code(f"{there} `digits.yaml` `jobs.lifecycle.leases.fence()`\n```\n`jobs.no.more`\n```\n") == []
    gone = ["jobs.lifecycle.store.nothing", "worker/attempt/end.py", "hora.Server", "jobs.model.states.EndReason.no"]
    assert missing_code(" ".join(f"`{path}`" for path in gone)) == gone


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_can_be_submitted(path: Path) -> None:
    text = path.read_text()
    spec = parse_spec(text, syntax="json" if path.suffix == ".json" else "yaml")
    added = re.findall(r"^# hora dataset add (\S+)", text, re.MULTILINE)
    assert [problem for problem in unsupported(spec, SitePolicy()) if problem.received not in added] == []


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_examples_of_studies_can_be_submitted(path: Path) -> None:
    study = StudySpec.model_validate_json(json.dumps(load_yaml(path.read_text())))
    cells = cells_of(study) if study.search is None else ends_of(study)
    assert len(cells) * study.repeats <= study.max_jobs
    assert [problem for cell in cells for problem in unsupported(cell.spec, SitePolicy())] == []


def blocks(page: Path, language: str) -> list[str]:
    """What a page shows in a language: specs, parts of specs, studies, Compose files."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("spec", [text for page in PAGES for text in blocks(page, "json") if '"dataset"' in text])
def test_json_specs_on_the_pages_can_be_submitted(spec: str) -> None:
    assert unsupported(parse_spec(spec), SitePolicy(data_roots=["/data"])) == []


DIGEST = "9f" * 32


@pytest.mark.parametrize("text", [text for page in PAGES for text in blocks(page, "yaml")])
def test_yaml_on_the_pages_can_be_submitted(text: str) -> None:
    if text.startswith("services:"):  # a Compose file
        return
    document = load_yaml(text.replace("code: .\n", f"code: {DIGEST}\n"))  # as the command line does
    if "base" in document:
        specs = [cell.spec for cell in cells_of(StudySpec.model_validate_json(json.dumps(document)))]
    else:
        is_of_script = document.keys() & {"code", "command", "goal", "requirements"}
        rest = {"code": DIGEST, "command": ["python", "train.py"]} if is_of_script else {"dataset": "digits"}
        specs = [spec_from(rest | document)]
    site = SitePolicy(data_roots=["/data"], runs_code=True, installs_requirements=True)
    assert [problem for spec in specs for problem in unsupported(spec, site)] == []


def shown_commands(text: str) -> Iterator[list[str]]:
    """The words after `hora` in each command line that a page shows, indented or after a prompt."""
    for line in re.findall(r"^(?:    |\$ )(?:\.venv/bin/)?hora (.*)$", text, re.MULTILINE):
        words = shlex.split(line.partition(" | ")[0], comments=True)
        yield words[2:] if words[0] == "--profile" else words
