"""What a browser gets: the files and addresses of the page, its policy, and the documentation."""

from pathlib import Path
from types import ModuleType

import brotli
import pytest
from fastapi.testclient import TestClient

from api.main import app_for
from api.pages import docs_page, help_pages, page
from jobs.runtime.settings import Settings
from tests.integration.api.answers import problem

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
INDEX = "<!doctype html><title>Hora</title>"
SCRIPT = "console.log('hora');\n" * 200
STYLE = "body { margin: 0; }\n"
PAGES = ("/", "/?status=running&sort=-started_at", "/jobs/3k9v0t2m7x1q?tab=logs", "/an-address-of-a-later-version")


def serve(folder: Path, files: ModuleType = page) -> TestClient:
    """A client of the service with the files of a folder; it has no database, as they need none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "FOLDER", folder)
        app = app_for(Settings(database_url="postgresql://hora@/hora", broker_url="memory://"))
    return TestClient(app, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a service whose page has three files. Beside them lies a private file."""
    folder = tmp_path_factory.mktemp("page") / "dashboard"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "index-1a2b3c4d.js").write_text(SCRIPT)
    (folder / "assets" / "packed-5e6f.js").write_text(SCRIPT)
    (folder / "assets" / "packed-5e6f.js.br").write_bytes(brotli.compress(SCRIPT.encode()))
    (folder / "icon.svg").write_text("<svg/>")
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    return serve(folder)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a service with two files of documentation. Beside them lies a private file."""
    folder = tmp_path_factory.mktemp("site") / "help"
    for name, text in (("docs/index.html", INDEX), ("_static/site.css", STYLE), ("../secret.txt", "secret")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return serve(folder, help_pages)


def test_a_browser_gets_the_page_at_its_addresses(browser: TestClient) -> None:
    for path in PAGES:
        answer = browser.get(path, headers=BROWSER)
        assert (answer.status_code, answer.text) == (200, INDEX), path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        again = browser.get(path, headers=BROWSER | {"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content, again.headers["cache-control"]) == (304, b"", "no-cache")
    for accept in ("*/*", "application/json"):
        assert browser.get("/jobs", headers={"Accept": accept}).status_code == 404, "a script gets no page"


def test_an_unknown_api_path_is_a_problem_for_browsers_too(browser: TestClient) -> None:
    for path in (
        "/v1", "/v1/", "/v1/jobz", "/v1/jobs/a/b/c", "/healthz/", "/readyz/x", "/metrics/x", "/docs/x",
        "/openapi.json/x", "/logout/x", "/assets/index-00000000.js", "/assets", "/assets/",
    ):  # fmt: skip
        answer = browser.get(path, headers=BROWSER)
        problem(answer, 404, "not-found")
        assert "cache-control" not in answer.headers, path


def test_browsers_may_cache_files_with_a_hash_in_their_name(browser: TestClient) -> None:
    answer = browser.get("/assets/index-1a2b3c4d.js", headers={"Accept-Encoding": "identity"})

    assert (answer.status_code, answer.text) == (200, SCRIPT)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert browser.get("/icon.svg").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("takes", ["br", "gzip;q=0.5, BR; q=1"])
def test_a_packed_file_is_sent_to_browsers_that_take_it(browser: TestClient, takes: str) -> None:
    path, headers = "/assets/packed-5e6f.js", {"Accept-Encoding": takes}
    with browser.stream("GET", path, headers=headers) as answer:
        packed = b"".join(answer.iter_raw())

    assert brotli.decompress(packed).decode() == SCRIPT
    assert (answer.headers["content-encoding"], answer.headers["content-length"]) == ("br", str(len(packed)))
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "Accept-Encoding" in answer.headers["vary"]
    again = browser.get(path, headers=headers | {"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert browser.head(path, headers=headers).headers["content-length"] == str(len(packed))


@pytest.mark.parametrize("takes", ["", "gzip", "br; q=0.0, gzip", "brotli"])
def test_a_packed_file_is_not_sent_to_others(browser: TestClient, takes: str) -> None:
    answer = browser.get("/assets/packed-5e6f.js", headers={"Accept-Encoding": takes})

    assert answer.text == SCRIPT
    assert answer.headers.get("content-encoding") == ("gzip" if "gzip" in takes else None)
    assert int(answer.headers["content-length"]) < len(SCRIPT) / 10 or "gzip" not in takes
    assert "Accept-Encoding" in answer.headers["vary"]


def test_the_page_has_a_strict_content_security_policy(browser: TestClient) -> None:
    policy = browser.get("/jobs/3k9v0t2m7x1q", headers=BROWSER).headers["content-security-policy"]

    assert set(policy.split("; ")) == {
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "media-src 'self'",
        "font-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
    }  # fmt: skip


def test_other_methods_on_a_file_are_refused(browser: TestClient) -> None:
    for path in ("/", "/icon.svg", "/assets/index-1a2b3c4d.js"):
        answer = browser.post(path, headers=BROWSER)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        assert browser.head(path).headers["content-length"] == browser.get(path).headers["content-length"]
    assert browser.post("/jobs/3k9v0t2m7x1q", headers=BROWSER).status_code == 404
    assert browser.get("/v1/jobs/3k9v0t2m7x1q/cancel", headers=BROWSER).headers["allow"] == "POST"


def test_a_file_of_the_documentation_needs_no_token_and_an_unchanged_one_is_not_sent_again(
    reader: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text, kind in (("docs/index.html", INDEX, "text/html"), ("_static/site.css", STYLE, "text/css")):
        answer = reader.get(f"/help/{path}")
        assert (answer.status_code, answer.text) == (200, text)
        assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
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


def test_nothing_outside_the_folders_is_served(browser: TestClient, reader: TestClient) -> None:
    outside = ("..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt", "%2fetc%2fpasswd", "%00", "..%5csecret.txt", "a" * 300)
    for folder in ("", "assets/", "assets/..%2f", "docs/"):
        for path in (*outside, "link.txt"):
            problem(browser.get(f"/{folder}{path}"), 404, "not-found")
    for path in (*outside, "nowhere.html", "docs", "docs/", "/etc/passwd"):
        answer = reader.get(f"/help/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "no page at this address" in answer.text
        assert 'href="/help/docs/index.html"' in answer.text, "it leads to the start"
        assert reader.head(f"/help/{path}").status_code == 404


def test_a_checkout_without_the_pages_says_what_to_do(tmp_path: Path) -> None:
    for files, paths in ((page, ("/", docs_page.PATH)), (help_pages, ("/help",))):
        client = serve(tmp_path, files)
        for path in paths:
            answer = client.get(path, headers=BROWSER)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
            assert "make setup" in answer.text
        assert client.get("/healthz").status_code == 200
    assert client.get("/help/docs/index.html").status_code == 404
