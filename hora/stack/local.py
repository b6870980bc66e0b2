"""`hora up` and `hora down`: the stack on this machine, for a person. Called by the CLI."""

from collections.abc import Callable

from hora.home import StackError
from hora.stack.composition import order_from_environment
from hora.stack.control import Stack
from hora.stack.keeper import ALREADY_RUNNING, Keeper

Say = Callable[[str], None]


def start(*, detach: bool, say: Say) -> str | None:
    """Start the stack and return its address; without `detach` only when it was already running, or was stopped.

    Raises `StackError`.
    """
    order = order_from_environment()
    stack = Stack(order.home.path, embedded=False)
    if not detach and Keeper(order, say, when_ready=lambda: _offer_login(stack, say)).run() != ALREADY_RUNNING:
        return None
    started = stack.start(stays=True, on_phase=say)
    say(f"Hora is {'ready' if started else 'already running'} at {stack.url} (state and logs in {order.home.path})")
    _offer_login(stack, say)
    return stack.url


def _offer_login(stack: Stack, say: Say) -> None:
    """Say how a browser gets in; never into a log, which is why the keeper of a detached stack does not do it."""
    from hora.service import HoraError, Service

    try:
        with Service(stack.url, stack.token, timeout_s=5) as service:
            say(f"Open the page, once and within ten minutes: {service.login_link()['url']}")
    except (HoraError, StackError):
        say("`hora login` prints a link to the page.")


def stop() -> list[str]:
    """Stop the stack; returns what was done, a line each."""
    return Stack(order_from_environment().home.path).stop()
