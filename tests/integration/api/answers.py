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


def wrong_fields(answer: Any) -> list[str]:
    """The wrong fields that a problem names."""
    return [*errors_of(answer)]


def got(client: TestClient, path: str, **parameters: Any) -> dict[str, Any]:
    """The document at an address."""
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def created(client: TestClient, path: str, body: Any) -> dict[str, Any]:
    """The document that was made of this one."""
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def pages_of(client: TestClient, path: str, **parameters: Any) -> list[list[dict[str, Any]]]:
    """The items of each page of a list, by following the cursors."""
    pages, cursor = [], dict[str, str]()
    while True:
        page = got(client, path, **parameters | cursor)
        pages.append(page["items"])
        if page["next_cursor"] is None:
            return pages
        cursor = {"cursor": page["next_cursor"]}
