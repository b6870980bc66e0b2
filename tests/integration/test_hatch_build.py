"""The build of the wheel builds the dashboard and the documentation, only after a change, and packs them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hatch_build
from hatch_build import DashboardNotBuilt, DocsNotBuilt, build, build_docs

ROOT = Path(__file__).parents[2]
BUILD = """
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
mkdirSync("../api/dashboard", { recursive: true });
writeFileSync("../api/dashboard/index.html", `${process.version} ${readdirSync("src")}`);
"""


NEEDS = {"part": "file:part"}
LOCK = {
    "lockfileVersion": 3,
    "packages": {
        "": {"dependencies": NEEDS},
        "node_modules/part": {"resolved": "part", "link": True},
        "part": {"version": "1.0.0"},
    },
}


def write_package(folder: Path, **needs: str) -> None:
    package = {"private": True, "scripts": {"build": "node build.mjs"}, "dependencies": NEEDS | needs}
    (folder / "package.json").write_text(json.dumps(package))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a dashboard and its one package. The machine's own Node always fails."""
    sources = tmp_path / "dashboard"
    for name in ("src", "part"):
        (sources / name).mkdir(parents=True)
    (tmp_path / "api").mkdir()
    write_package(sources)
    (sources / "package-lock.json").write_text(json.dumps(LOCK))
    (sources / "part" / "package.json").write_text(json.dumps({"name": "part", "version": "1.0.0"}))
    (sources / ".npmrc").touch()
    (sources / "build.mjs").write_text(BUILD)
    (sources / "src" / "a.ts").write_text("a")
    machine = tmp_path / "bin"
    machine.mkdir()
    (machine / "node").write_text("#!/bin/sh\nexit 1\n")
    (machine / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    return tmp_path


def test_the_page_is_built_again_only_when_its_sources_change(checkout: Path) -> None:
    page, source = checkout / "api/dashboard/index.html", checkout / "dashboard/src"
    build(checkout)
    assert page.read_text().startswith("v24.")

    page.write_text("as it is")
    (source / "schema.d.ts").write_text("types, which are not built")
    (checkout / "dashboard/node_modules/package.js").touch()
    build(checkout)
    assert page.read_text() == "as it is"

    (source / "b.ts").write_text("b")
    build(checkout)
    assert page.read_text().endswith(" a.ts,b.ts,schema.d.ts")
    (source / "a.ts").rename(source / "c.ts")
    build(checkout)
    assert page.read_text().endswith(" b.ts,c.ts,schema.d.ts")

    shutil.rmtree(page.parent)
    build(checkout)
    assert page.is_file()


def test_a_failed_build_is_reported_with_remedies_and_tried_again(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = checkout / "dashboard/build.mjs"
    script.write_text("throw new Error('no such colour');")
    for _ in range(2):
        with pytest.raises(DashboardNotBuilt, match=r"(?s)npm run build.*no such colour") as refused:
            build(checkout)
        assert "registry" not in str(refused.value)
    script.write_text(BUILD)
    build(checkout)
    assert (checkout / "api/dashboard/index.html").is_file()
    write_package(checkout / "dashboard", preact="11")
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    with pytest.raises(DashboardNotBuilt) as refused:
        build(checkout)
    for told in ("ECONNREFUSED", "npm_config_registry", "HTTPS_PROXY", "NODE_EXTRA_CA_CERTS"):
        assert told in str(refused.value)


def test_the_wheel_has_the_built_page_and_the_source_distribution_its_sources(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", tmp_path], cwd=ROOT, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    built = {name for name in names if "dashboard/" in name}
    help_pages = {name for name in names if name.startswith("api/help/")}
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}

    assert "api/dashboard/index.html" in built
    assert {"api/dashboard/docs/index.html", "api/dashboard/docs/swagger-ui-bundle.js"} <= built
    assert any(name.startswith("api/dashboard/assets/") and name.endswith(".js") for name in built)
    assert all(name.startswith("api/dashboard/") and not Path(name).name.startswith(".") for name in built)
    assert {"api/help/docs/index.html", "api/help/searchindex.js", "api/help/_static/site.css"} <= help_pages
    assert all(not Path(name).name.startswith(".") for name in help_pages)
    assert {"hatch_build.py", "docs/site/conf.py", "docs/index.md"} <= sources
    assert not [name for name in sources if name.startswith("api/help/")]
    assert {"hatch_build.py", "dashboard/package-lock.json", "dashboard/index.html"} <= sources
    assert not [name for name in sources if "node_modules" in name or name.startswith("api/dashboard")]


INDEX = "# Start\n\n## Reference\n\n- [The top](../README.md): Of all.\n- [A spec](spec.md): Its fields.\n"
SPEC = "# A spec\n\n## Batch size\n\n{}\n\n[Batch](#batch-size), [its page](index.md#reference), [all](../examples)\n"


@pytest.fixture
def docs_checkout(tmp_path: Path) -> Path:
    """A checkout with three pages."""
    for path in ("api", "docs", "examples"):
        (tmp_path / path).mkdir()
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    shutil.copytree(ROOT / "dashboard" / "public", tmp_path / "dashboard" / "public")
    (tmp_path / "README.md").write_text("# The top\n\n[A spec](docs/spec.md#batch-size)\n")
    (tmp_path / "docs" / "index.md").write_text(INDEX)
    (tmp_path / "docs" / "spec.md").write_text(SPEC.format("Samples."))
    return tmp_path


def test_the_site_is_built_again_only_when_a_page_changes(docs_checkout: Path) -> None:
    page = docs_checkout / "api/help/docs/spec.html"
    build_docs(docs_checkout)
    assert "Samples." in page.read_text()
    assert 'href="docs/spec.html#batch-size"' in (docs_checkout / "api/help/README.html").read_text()

    page.write_text("as it is")
    build_docs(docs_checkout)
    assert page.read_text() == "as it is"

    (docs_checkout / "docs/spec.md").rename(docs_checkout / "docs/fields.md")
    for source in ("README.md", "docs/index.md"):
        (docs_checkout / source).write_text((docs_checkout / source).read_text().replace("spec.md", "fields.md"))
    build_docs(docs_checkout)
    assert (docs_checkout / "api/help/docs/fields.html").is_file()
    assert not page.exists()


def test_errors_in_pages_fail_the_build_until_they_are_mended(docs_checkout: Path) -> None:
    build_docs(docs_checkout)
    before = {path: path.read_text() for path in docs_checkout.glob("docs/*.md")}
    links = "[a page](nowhere.md) [an anchor](index.md#none) [an anchor of its own](#neither)"
    (docs_checkout / "docs/spec.md").write_text(SPEC.format(links))
    (docs_checkout / "docs/index.md").write_text(INDEX + "- [Nothing](nothing.md): At all.\n")
    (docs_checkout / "docs/more.md").write_text("# More\n")
    for _ in range(2):
        with pytest.raises(DocsNotBuilt) as error:
            build_docs(docs_checkout)
        for reason in (
            r"spec\.md:5.*nowhere\.md", r"spec\.md:5.*none", r"spec\.md:5.*neither", r"index\.md.*nothing",
            r"more\.md.*toctree",
        ):  # fmt: skip
            assert re.search(reason, str(error.value)), reason
    (docs_checkout / "docs/more.md").unlink()
    for path, text in before.items():
        path.write_text(text)
    build_docs(docs_checkout)
    assert (docs_checkout / "api/help/docs/index.html").is_file()


def test_a_broken_page_only_gives_a_warning_during_setup(
    docs_checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hatch_build, "build", lambda _root: None)  # of the dashboard
    hatch_build.build_both(docs_checkout)
    assert capsys.readouterr().err == ""

    (docs_checkout / "docs" / "spec.md").write_text(SPEC.format("[x](nowhere.md)"))
    hatch_build.build_both(docs_checkout)
    warning = capsys.readouterr().err
    assert "nowhere.md" in warning
    assert "make docs" in warning
    assert not (docs_checkout / "api/help").exists()
