"""The build of the wheel builds the documentation, only after a change; a wrong link fails it."""

import re
import shutil
from pathlib import Path

import pytest

import hatch_build
from hatch_build import DocsNotBuilt, build_docs

ROOT = Path(__file__).parents[2]
INDEX = "# Start\n\n## Reference\n\n- [The top](../README.md): Of all.\n- [A spec](spec.md): Its fields.\n"
SPEC = "# A spec\n\n## Batch size\n\n{}\n\n[Batch](#batch-size), [its page](index.md#reference), [all](../examples)\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with three pages."""
    for path in ("api", "docs", "examples"):
        (tmp_path / path).mkdir()
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    shutil.copytree(ROOT / "dashboard" / "public", tmp_path / "dashboard" / "public")
    (tmp_path / "README.md").write_text("# The top\n\n[A spec](docs/spec.md#batch-size)\n")
    (tmp_path / "docs" / "index.md").write_text(INDEX)
    (tmp_path / "docs" / "spec.md").write_text(SPEC.format("Samples."))
    return tmp_path


def test_the_site_is_built_again_only_when_a_page_changes(checkout: Path) -> None:
    page = checkout / "api/help/docs/spec.html"
    build_docs(checkout)
    assert "Samples." in page.read_text()
    assert 'href="docs/spec.html#batch-size"' in (checkout / "api/help/README.html").read_text()

    page.write_text("as it is")
    build_docs(checkout)
    assert page.read_text() == "as it is"

    (checkout / "docs/spec.md").rename(checkout / "docs/fields.md")
    for source in ("README.md", "docs/index.md"):
        (checkout / source).write_text((checkout / source).read_text().replace("spec.md", "fields.md"))
    build_docs(checkout)
    assert (checkout / "api/help/docs/fields.html").is_file()
    assert not page.exists()


def test_errors_in_pages_fail_the_build_until_they_are_mended(checkout: Path) -> None:
    build_docs(checkout)
    before = {path: path.read_text() for path in checkout.glob("docs/*.md")}
    links = "[a page](nowhere.md) [an anchor](index.md#none) [an anchor of its own](#neither)"
    (checkout / "docs/spec.md").write_text(SPEC.format(links))
    (checkout / "docs/index.md").write_text(INDEX + "- [Nothing](nothing.md): At all.\n")
    (checkout / "docs/more.md").write_text("# More\n")
    for _ in range(2):
        with pytest.raises(DocsNotBuilt) as error:
            build_docs(checkout)
        for reason in (
            r"spec\.md:5.*nowhere\.md", r"spec\.md:5.*none", r"spec\.md:5.*neither", r"index\.md.*nothing",
            r"more\.md.*toctree",
        ):  # fmt: skip
            assert re.search(reason, str(error.value)), reason
    (checkout / "docs/more.md").unlink()
    for path, text in before.items():
        path.write_text(text)
    build_docs(checkout)
    assert (checkout / "api/help/docs/index.html").is_file()


def test_a_broken_page_only_gives_a_warning_during_setup(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hatch_build, "build", lambda _root: None)  # of the dashboard
    hatch_build.build_both(checkout)
    assert capsys.readouterr().err == ""

    (checkout / "docs" / "spec.md").write_text(SPEC.format("[x](nowhere.md)"))
    hatch_build.build_both(checkout)
    warning = capsys.readouterr().err
    assert "nowhere.md" in warning
    assert "make docs" in warning
    assert not (checkout / "api/help").exists()
