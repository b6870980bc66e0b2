"""The documentation at /help: files for everybody, with a strict policy, and a readable page for unknown paths."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.main import app_for
from api.pages import help_pages
from jobs.runtime.settings import Settings

START = "<!doctype html><title>Hora</title>"
STYLE = "body { margin: 0; }\n"


def serve(folder: Path) -> TestClient:
    """A client of the service with the documentation of a folder; it has no database, as these files need none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(help_pages, "FOLDER", folder)
        app = app_for(Settings(database_url="postgresql://hora@/hora", broker_url="memory://"))
    return TestClient(app, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a service with two files of documentation. Beside them lies a private file."""
    folder = tmp_path_factory.mktemp("site") / "help"
    for name, text in (("docs/index.html", START), ("_static/site.css", STYLE), ("../secret.txt", "secret")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return serve(folder)


def test_a_file_needs_no_token_and_an_unchanged_one_is_not_sent_again(
    reader: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text, kind in (("docs/index.html", START, "text/html"), ("_static/site.css", STYLE, "text/css")):
        answer = reader.get(f"/help/{path}")

        assert (answer.status_code, answer.text) == (200, text)
        assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        again = reader.get(f"/help/{path}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content, again.headers["cache-control"]) == (304, b"", "no-cache")
        head = reader.head(f"/help/{path}")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(text)))
    logged = capsys.readouterr().out
    assert "path=/help/docs/index.html" in logged
    assert "site.css" not in logged
    for start in ("/help", "/help/"):
        answer = reader.get(start)
        assert (answer.status_code, answer.headers["location"]) == (307, "/help/docs/index.html")
    refused = reader.post("/help/docs/index.html")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


def test_an_unknown_address_gets_a_page_with_a_link_to_the_start(reader: TestClient) -> None:
    for path in (
        "nowhere.html", "docs", "docs/", "..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt", "%2fetc%2fpasswd",
        "/etc/passwd", "%00", "a" * 300,
    ):  # fmt: skip
        answer = reader.get(f"/help/{path}")

        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "no page at this address" in answer.text
        assert 'href="/help/docs/index.html"' in answer.text
        assert reader.head(f"/help/{path}").status_code == 404


def test_a_checkout_without_the_documentation_says_what_to_do(tmp_path: Path) -> None:
    client = serve(tmp_path)
    answer = client.get("/help")

    assert answer.status_code == 404
    assert "make setup" in answer.text
    assert client.get("/help/docs/index.html").status_code == 404
