"""What requests cost besides their number: those that take long wait for a turn, and are charged for its length.

A route that computes, or reads much, declares it with `dependencies=[TAKES_A_TURN]`. All other routes must be quick.
`tests/unit/api/test_costs.py` names each route that is neither declared nor known to be quick.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from api.access.turns import Turns
from api.callers import Caller, CallerHere
from api.deps import Services, ServicesHere
from api.live.response import wants_stream
from jobs.lifecycle.list_sorts import has_index

TURN_S_OF_A_REQUEST = 0.02  # of a turn cost as much as one request
_QUICK_LIMIT = 100  # items of a page


@asynccontextmanager
async def _turn(turns: Turns, request: Request, services: Services, caller: Caller) -> AsyncIterator[None]:
    await request.body()  # before the turn, so that a slow sender does not keep it; the request remembers the body
    async with turns.turn_of(caller.user) as turn:
        if await request.is_disconnected():  # while it waited: nobody would get the answer
            raise ClientDisconnect
        try:
            yield
        finally:
            charge_time(services, caller, turn.seconds())


def charge_time(services: Services, caller: Caller, seconds: float) -> None:
    """Charge a caller for time of the service, besides the request itself."""
    services.limits.charge_more(caller.bearer, seconds / TURN_S_OF_A_REQUEST)


async def _take_turn(request: Request, services: ServicesHere, caller: CallerHere) -> AsyncIterator[None]:
    async with _turn(services.turns, request, services, caller):
        yield


async def _take_turn_to_report(request: Request, services: ServicesHere, caller: CallerHere) -> AsyncIterator[None]:
    # A process of its own draws for seconds: other long requests need not wait for it.
    is_picture = request.query_params.get("format") == "png"
    async with _turn(services.drawing_turns if is_picture else services.turns, request, services, caller):
        yield


async def _take_turn_of_a_process(request: Request, services: ServicesHere, caller: CallerHere) -> AsyncIterator[None]:
    async with _turn(services.drawing_turns, request, services, caller):  # a process of its own works, as for a picture
        yield


async def _take_turn_to_import(request: Request, services: ServicesHere, caller: CallerHere) -> AsyncIterator[None]:
    async with _turn(services.import_turns, request, services, caller):
        yield


def _turn_if(takes_long: Callable[[Request], bool]) -> Any:
    async def take_turn_if(request: Request, services: ServicesHere, caller: CallerHere) -> AsyncIterator[None]:
        if takes_long(request):
            async with _turn(services.turns, request, services, caller):
                yield
        else:
            yield

    return Depends(take_turn_if, scope="function")


def _has_long_page(request: Request) -> bool:
    limit = request.query_params.get("limit", "")
    is_long = len(limit) > 3 or (limit.isdecimal() and int(limit) > _QUICK_LIMIT)
    reads_all = not {"search", "where"}.isdisjoint(request.query_params)
    return is_long or reads_all or not has_index(request.query_params.get("sort", "created_at"))


def _has_long_history(request: Request) -> bool:
    """A page without a limit has up to 1,000 lines. A stream reads in steps of its own."""
    return not wants_stream(request) and ("limit" not in request.query_params or _has_long_page(request))


# A turn ends before the answer is sent, so a slow reader does not keep it.
TAKES_A_TURN = Depends(_take_turn, scope="function")
REPORT_TAKES_A_TURN = Depends(_take_turn_to_report, scope="function")
PROCESS_TAKES_A_TURN = Depends(_take_turn_of_a_process, scope="function")
IMPORT_TAKES_A_TURN = Depends(_take_turn_to_import, scope="function")
DRY_RUN_TAKES_A_TURN = _turn_if(lambda request: "dry_run" in request.query_params)
LONG_PAGE_TAKES_A_TURN = _turn_if(_has_long_page)
HISTORY_TAKES_A_TURN = _turn_if(_has_long_history)
