"""What answers say of an error. For all tests of the API."""

from typing import Any


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
