"""What answers say of an error, and the pages of a list. For all tests of the API."""

from typing import Any

from fastapi.testclient import TestClient


def problem(answer: Any, status: int, slug: str) -> dict[str, Any]:
    """The document of an answer that must be this problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert (document["status"], document["type"]) == (status, f"urn:hora:problem:{slug}")
    assert document["title"]
    assert document["request_id"] == answer.headers["x-request-id"]
    return document


def errors_of(answer: Any) -> dict[str, str]:
    """The message of each wrong field."""
    return {error["field"]: error["message"] for error in problem(answer, 422, "invalid-request")["errors"]}


def pages_of(client: TestClient, path: str, **parameters: Any) -> list[list[dict[str, Any]]]:
    """The items of each page of a list, by following the cursors."""
    pages, cursor = [], dict[str, str]()
    while True:
        answer = client.get(path, params=parameters | cursor)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        pages.append(page["items"])
        if page["next_cursor"] is None:
            return pages
        cursor = {"cursor": page["next_cursor"]}
