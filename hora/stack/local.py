"""`hora up` and `hora down`: the stack on this machine, for a person. Called by the CLI."""

import os
from collections.abc import Callable

from hora.home import StackError
from hora.stack.control import Stack
from hora.stack.keeper import ALREADY_RUNNING, Keeper
from hora.stack.settings import stack_settings
from jobs.runtime.settings import Settings, misspelt_in

PrintLine = Callable[[str], None]


def start(*, detach: bool, print_line: PrintLine) -> str | None:
    """Start the stack and return its address. Without `detach`: keep it until it is stopped, and return None.

    A stack that already runs is left as it is. Raises `StackError`.
    """
    settings = stack_settings()
    for sentence in misspelt_in(os.environ):
        print_line(sentence)
    stack = Stack(settings.home.path, embedded=False)
    if (
        not detach
        and Keeper(settings, print_line, when_ready=lambda: _print_hints(stack, print_line)).run() != ALREADY_RUNNING
    ):
        return None
    started = stack.start(stays=True, on_phase=print_line)
    print_line(
        f"Hora is {'ready' if started else 'already running'} at {stack.url} (state and logs in {settings.home.path})"
    )
    _print_hints(stack, print_line)
    return stack.url


def _print_hints(stack: Stack, print_line: PrintLine) -> None:
    """Print why this host does not offer its GPUs, if so, and a login link.

    The link must not get into a log, so the keeper of a detached stack does not print one.
    """
    from hora.service import HoraError, Service

    try:
        with Service(stack.url, stack.token, timeout_s=5) as service:
            if problem := service.host(Settings().host)["info"].get("device_problem"):
                print_line(f"{problem}.")
            print_line(f"Open the page (the link works once, within ten minutes): {service.login_link()['url']}")
    except (HoraError, StackError):
        print_line("`hora login` prints a link to the page.")


def stop() -> list[str]:
    """Stop the stack. Returns what was stopped, a line each."""
    return Stack(stack_settings().home.path).stop()
