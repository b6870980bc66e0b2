"""A client that polls; for the tests of entity tags."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import Executable

from jobs.db.engine import Sessions
from jobs.lifecycle import store

Write = Callable[[], object]


def writes(sessions: Sessions, *statements: Executable) -> Write:
    """A write of these statements in one transaction."""

    def write() -> None:
        with sessions.begin() as session:
            for statement in statements:
                session.execute(statement)

    return write


def touches(sessions: Sessions, job_id: str, **values: Any) -> Write:
    """A write of columns of a job."""

    def write() -> None:
        with sessions.begin() as session:
            store.touch(session, job_id, **values)

    return write


class Poll:
    """A client that requests one address again and again, each time with the tag of the last answer."""

    def __init__(self, api: TestClient, path: str) -> None:
        self._api, self._path = api, path
        self._tag = self.full().headers["etag"]

    def full(self) -> Any:
        answer = self._api.get(self._path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["etag"].startswith('W/"')
        assert answer.headers["cache-control"] == "private, no-cache"
        return answer

    def is_unchanged(self) -> bool:
        answer = self._api.get(self._path, headers={"If-None-Match": self._tag})
        assert answer.status_code in {200, 304}, answer.text
        tag = answer.headers["etag"]
        assert (tag == self._tag) == (answer.status_code == 304)
        assert answer.headers["cache-control"] == "private, no-cache"
        assert answer.content == b"" or answer.status_code == 200
        self._tag = tag
        return answer.status_code == 304

    def changes_with(self, write: Write) -> None:
        """The tag changes with the write. It does not change before the write and after it."""
        assert self.is_unchanged()
        write()
        assert not self.is_unchanged()
        assert self.is_unchanged()

    def stands_still_with(self, write: Write) -> None:
        """The write changes neither the tag nor the content."""
        before = self.full().content
        write()
        assert self.is_unchanged()
        assert self.full().content == before
