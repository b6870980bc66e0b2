"""The settings of a local stack, from `HORA_*`. Read by `hora up` and by the keeper."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from hora.home import Home, StackError
from hora.stack.parts import PARTS
from jobs.runtime.settings import Settings, in_sentences


@dataclass(frozen=True)
class StackSettings:
    """What a keeper runs. A database or a broker whose address is given here is not started."""

    home: Home
    port: int  # 0: any free one
    slots: int | None = None
    token: str | None = None
    database_url: str | None = None
    broker_url: str | None = None
    parts: tuple[str, ...] = PARTS


def stack_settings(*, parts: Iterable[str] = PARTS) -> StackSettings:
    """The settings from the environment. Raises `StackError` where one is not valid."""
    try:
        settings = Settings()
    except ValidationError as error:
        raise StackError(f"{in_sentences(error, ' is not valid')}.") from error
    fields_set = settings.model_fields_set
    home = Home.at(settings.home)
    if os.geteuid() == 0 and "database_url" not in fields_set and "database" in parts:
        home.refuse_home_folder()
    return StackSettings(
        home=home,
        port=settings.port,
        slots=settings.slots,
        token=settings.token,
        database_url=settings.database_url if "database_url" in fields_set else None,
        broker_url=settings.broker_url if "broker_url" in fields_set else None,
        parts=tuple(parts),
    )
