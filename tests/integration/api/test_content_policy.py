"""The Content-Security-Policy: every answer has it, and the page of the API at /docs needs nothing that it refuses."""

import re

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from api.middleware import CONTENT_SECURITY_POLICY
from tests.markup import Markup

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
NO_ROUTE = ("/nowhere", "/jobs/3k9v0t2m7x1q", "/docs/nowhere", "/help/nowhere.html", "/v1/nowhere")


def other_policies(api: TestClient, app: FastAPI) -> dict[str, str | None]:
    """The routes that answer a browser without the policy, and the policy that they have instead."""
    routes = [
        (method, re.sub(r"\{[^}]*\}", "0", route.path or "/"))
        for route in iter_route_contexts(app.routes)
        for method in sorted(route.methods or {"GET"})
    ]
    assert ("GET", "/docs") in routes
    policies = {}
    for method, path in [*routes, *[("GET", path) for path in NO_ROUTE]]:
        # HEAD has the headers of GET, and ends streams.
        answer = api.request("HEAD" if method == "GET" else method, path, headers=BROWSER, follow_redirects=False)
        policies[f"{method} {path}"] = answer.headers.get("content-security-policy")
        others = (answer.headers["x-content-type-options"], answer.headers["referrer-policy"])
        assert others == ("nosniff", "no-referrer"), path
    return {name: policy for name, policy in policies.items() if policy != CONTENT_SECURITY_POLICY}


def test_every_route_answers_with_the_policy_or_is_named(api: TestClient, app: FastAPI) -> None:
    assert other_policies(api, app) == {}
    loose = {"Content-Security-Policy": "script-src *"}
    app.add_api_route("/v1/loose", lambda: HTMLResponse("<p>", headers=loose))
    assert other_policies(api, app) == {"GET /v1/loose": "script-src *"}


def test_the_page_of_the_api_loads_only_its_own_files(api: TestClient) -> None:
    answer = api.get("/docs", headers=BROWSER)
    markup = Markup(answer.text)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert markup.refused == []
    assert "/docs/start.js" in markup.addresses
    for address in markup.addresses:
        file = api.get(address)
        assert (file.status_code, file.headers["cache-control"]) == (200, "no-cache"), address
        again = api.get(address, headers={"If-None-Match": file.headers["etag"]})
        assert (again.status_code, again.headers["content-security-policy"]) == (304, CONTENT_SECURITY_POLICY)
    old = api.get("/redoc", follow_redirects=False)
    assert (old.status_code, old.headers["location"]) == (307, "/docs")
