"""The service itself: whether it is ready, and its errors."""

from typing import Literal

from pydantic import BaseModel, Field


class ReadinessView(BaseModel):
    """What the service needs, and how it is. The database's own absence is a problem, 503."""

    status: Literal["ok"] = "ok"
    database: Literal["ok"] = "ok"
    schema_: str = Field(alias="schema", description="`ok`, or which newer version the database is at")
    broker: Literal["ok", "away"] = Field(description="Away: jobs run all the same, and start up to a second later")


class FieldError(BaseModel):
    """One wrong field of a request: its dotted path, what is allowed, and what came."""

    field: str
    message: str
    received: str | None = None


class ProblemView(BaseModel):
    """An error as of RFC 9457."""

    type: str = Field(examples=["urn:hora:problem:job-not-found"])
    title: str
    status: int
    detail: str | None = None
    instance: str
    request_id: str | None
    errors: list[FieldError] | None = None
