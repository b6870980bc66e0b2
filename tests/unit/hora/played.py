"""A stand-in for the service in tests of the client: its answers, and the requests that it received."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2 as httpx
import pytest

from hora.service import Service
from jobs.model.plan import resolve_plan
from jobs.model.spec import parse_spec

NOW = "2030-01-02T03:04:05Z"
SPEC = parse_spec('{"dataset": "digits", "gpus": 2, "epochs": 3}')
PLAN = resolve_plan(SPEC, None).model_dump(mode="json")

Answer = Callable[[httpx.Request], httpx.Response]


def job(**changes: Any) -> dict[str, Any]:
    """A job as the service returns it."""
    return {
        "id": "0job", "name": "job", "owner": "ada", "project": "default", "status": "queued", "end_reason": None,
        "error": None, "spec": json.loads(SPEC.model_dump_json()), "plan": PLAN,
        "progress": {"epoch": 0, "epochs": 3, "step": 0, "steps": None, "eta_s": None}, "summary": None,
        "dataset": None, "labels": {}, "study": None, "study_cell": None, "study_repeat": None, "probe": None,
        "gpus": 2, "priority": 50, "attempt": 0, "restarts": 0, "losses": 0, "waiting": None, "paused_at": None,
        "cancel_requested_at": None, "created_at": NOW, "started_at": None, "ended_at": None,
        "logs_removed_at": None, "series_thinned_at": None, "revision": 1, **changes,
    }  # fmt: skip


def ended(status: str = "succeeded", reason: str = "completed", **changes: Any) -> dict[str, Any]:
    """The same job after its end."""
    return job(status=status, end_reason=reason, started_at=NOW, ended_at=NOW, attempt=1, revision=9, **changes)


def study(**changes: Any) -> dict[str, Any]:
    """A study of one cell as the service returns it."""
    of_cell = {"id": "0job", "repeat": 0, "status": "queued", "end_reason": None, "paused": False, "replaced": []}
    return {
        "id": "0stu", "name": "grid", "owner": "ada", "project": "default", "varied": ["gpus"], "repeats": 1,
        "target": None, "jobs": 1, "counts": {"queued": 1}, "paused": 0, "complete": False,
        "cancel_requested_at": None, "created_at": NOW, "revision": 1, "base": {}, "grid": {"gpus": [2]},
        "cells": [{"values": {"gpus": 2}, "gpus": 2, "jobs": [of_cell]}], "notes": [], **changes,
    }  # fmt: skip


def page(*items: Any, next_cursor: str | None = None) -> dict[str, Any]:
    """A page of a list."""
    return {"items": list(items), "next_cursor": next_cursor}


def in_turn(*answers: httpx.Response | Exception) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """A transport that gives these answers one after the other, and a list that collects the requests."""
    requests: list[httpx.Request] = []
    remaining: Iterator[httpx.Response | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        answer_or_error = next(remaining)
        if isinstance(answer_or_error, Exception):
            raise answer_or_error
        return answer_or_error

    return httpx.MockTransport(answer), requests


def service_of(*answers: httpx.Response | Exception) -> tuple[Service, list[httpx.Request]]:
    """A service that gives these answers one after the other, and a list that collects the requests."""
    transport, requests = in_turn(*answers)
    return Service("http://hora.test/", "secret", transport=transport), requests


def connect(patch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Let commands talk to a service with these answers."""
    transport = httpx.MockTransport(answer)
    patch.setattr("hora.connection.connect", lambda **_: Service("http://hora.test", transport=transport))


def json_answer(document: Any, status: int = 200, **headers: str) -> httpx.Response:
    """An answer in JSON."""
    return httpx.Response(status, json=document, headers=headers)
