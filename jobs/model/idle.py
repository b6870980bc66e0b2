"""The words for slots that nobody uses. Pure; used by `jobs.telemetry.idle_watch`."""

_UNITS = ((3600, "hour"), (60, "minute"), (1, "second"))


def is_idle_text(slots: int, *, on_gpus: bool, below: float) -> str:
    """As a warning says it: its 8 GPUs are used less than 5 %."""
    return f"{_subject(slots, on_gpus)} {'is' if slots == 1 else 'are'} used less than {below:g} %"


def was_idle_text(slots: int, *, on_gpus: bool, below: float, for_s: float) -> str:
    """As the reason for a pause or an end: its 8 GPUs were below 5 % for 30 minutes."""
    return f"{_subject(slots, on_gpus)} {'was' if slots == 1 else 'were'} below {below:g} % for {_span(for_s)}"


def _subject(slots: int, on_gpus: bool) -> str:
    name = "GPU" if on_gpus else "CPU slot"
    return f"its {name}" if slots == 1 else f"its {slots} {name}s"


def _span(seconds: float) -> str:
    """30 minutes, 1 hour, 90 seconds: in the largest unit that divides it."""
    unit_s, unit = next((each for each in _UNITS if seconds % each[0] == 0), _UNITS[-1])
    amount = seconds / unit_s
    return f"{amount:g} {unit}{'' if amount == 1 else 's'}"
