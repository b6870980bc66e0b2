"""Articles from the command line, on a real stack: write, read, change, export, delete."""

import json
from pathlib import Path
from textwrap import indent

from hora.stack.control import Stack
from tests.commands import hora

TEXT = "# Which batch?\n\nProse.\n\n```hora\ntable: name\nfilter: name=nothing-has-this-name\n```\n"


def test_an_article_is_written_changed_exported_and_deleted(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "batches.md"
    file.write_text(TEXT)
    added = hora(stack.home, "article", "add", str(file))
    assert added.returncode == 0, added.stderr
    article_id = added.stdout.strip()
    (line,) = json.loads(hora(stack.home, "article", "ls", "--json").stdout)["items"]
    assert (line["id"], line["title"], line["version"]) == (article_id, "Which batch?", 1)
    assert "Which batch?" in hora(stack.home, "article", "ls").stdout
    assert hora(stack.home, "article", "show", article_id).stdout == indent(TEXT, "  ")

    file.write_text(TEXT.replace("Prose.", "More prose."))
    assert "has version 2" in hora(stack.home, "article", "change", article_id, str(file)).stdout
    assert "is as it was" in hora(stack.home, "article", "change", article_id, str(file)).stdout
    assert "More prose." in hora(stack.home, "article", "show", article_id).stdout
    assert hora(stack.home, "article", "show", article_id, "--version", "1").stdout == indent(TEXT, "  ")
    assert "Which batch?" in hora(stack.home, "article", "versions", article_id).stdout

    assert hora(stack.home, "article", "export", article_id, "-o", str(tmp_path / "again.md")).returncode == 0
    assert (tmp_path / "again.md").read_text() == file.read_text()
    exported = tmp_path / "batches.html"
    assert hora(stack.home, "article", "export", article_id, "-o", str(exported)).returncode == 0
    assert "<p>More prose.</p>" in exported.read_text()
    assert hora(stack.home, "article", "export", article_id, "-o", "batches.docx").returncode == 2
    assert hora(stack.home, "article", "rm", article_id).returncode == 0
    empty = hora(stack.home, "article", "ls", "--owner", "nobody")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "No article matches.\n")
    assert hora(stack.home, "article", "show", article_id).returncode == 102
    refused = hora(stack.home, "article", "add", "-", "--title", "x", stdin="```hora\nchart: loss\njob: 1\n```")
    assert refused.returncode == 2
    assert "line 3: no such field `job`; did you mean `jobs`?" in refused.stderr
    assert hora(stack.home, "article", "add", "-", stdin="no heading").returncode == 2
    assert hora(stack.home, "article", "add", str(tmp_path / "missing.md")).returncode == 2
