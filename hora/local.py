"""`hora up` and `hora down`: the stack on this machine, for a person. Called by the CLI."""

from collections.abc import Callable

from hora.keeper import ALREADY_RUNNING, Keeper
from hora.order import order_from_environment
from hora.stack import Stack

Say = Callable[[str], None]


def start(*, detach: bool, say: Say) -> str | None:
    """Start the stack and return its address; without `detach` only when it was already running, or was stopped.

    Raises `StackError`.
    """
    order = order_from_environment()
    stack = Stack(order.home.path, embedded=False)
    if not detach and Keeper(order, say).run() != ALREADY_RUNNING:
        return None
    started = stack.start(stays=True, on_phase=say)
    say(f"Hora is {'ready' if started else 'already running'} at {stack.url} (state and logs in {order.home.path})")
    return stack.url


def stop() -> list[str]:
    """Stop the stack; returns what was done, a line each."""
    return Stack(order_from_environment().home.path).stop()
