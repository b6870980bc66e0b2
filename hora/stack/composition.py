"""What a stack is to consist of, as the person who starts it asks: read by `hora up` and by the keeper."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from hora.home import Home, StackError
from hora.stack.parts import PARTS
from jobs.runtime.settings import Settings


@dataclass(frozen=True)
class Order:
    """What a keeper is to run. A served component has its address here and is not started."""

    home: Home
    port: int  # 0: any free one
    slots: int | None = None
    token: str | None = None
    database_url: str | None = None
    broker_url: str | None = None
    parts: tuple[str, ...] = PARTS


def order_from_environment(*, parts: Iterable[str] = PARTS) -> Order:
    """What `hora up` is asked for by `HORA_*`. An address given there names a served component."""
    try:
        settings = Settings()
    except ValidationError as error:
        wrong = error.errors()[0]
        raise StackError(f"HORA_{str(wrong['loc'][0]).upper()} is not valid: {wrong['msg']}.") from error
    given = settings.model_fields_set
    home = Home.at(settings.home)
    if os.geteuid() == 0 and "database_url" not in given and "database" in parts:
        home.refuse_home_folder()
    return Order(
        home=home,
        port=settings.port,
        slots=settings.slots,
        token=settings.token,
        database_url=settings.database_url if "database_url" in given else None,
        broker_url=settings.broker_url if "broker_url" in given else None,
        parts=tuple(parts),
    )
