"""The service itself: whether it is ready, and its errors."""

from typing import Literal

from pydantic import BaseModel, Field


class ReadinessView(BaseModel):
    """The state of what the service needs. If the database is away, the answer is a problem with 503 instead."""

    status: Literal["ok", "no_space"] = Field(
        "ok", description="`no_space`: requests are answered, but no host takes jobs, or a folder of the api is full"
    )
    database: Literal["ok"] = "ok"
    schema_: str = Field(alias="schema", description="`ok`, or the newer version of the database's schema")
    broker: Literal["ok", "away"] = Field(description="`away`: jobs still run, but may start up to a second later")
    space: list[str] = Field([], description="What has no space: folders of the api, and hosts that take no jobs")


class FieldError(BaseModel):
    """One wrong field of a request: its dotted path, what is allowed, and the value received."""

    field: str
    message: str
    received: str | None = None


class ProblemView(BaseModel):
    """An error, in the form of RFC 9457."""

    type: str = Field(examples=["urn:hora:problem:job-not-found"])
    title: str
    status: int
    detail: str | None = None
    instance: str
    request_id: str | None
    errors: list[FieldError] | None = None
