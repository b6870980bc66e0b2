"""Slots and GPU time as text. Pure; used by reports of studies and by the command line. The page has the same rules."""


def slots_text(count: int, device: str | None) -> str:
    """2 GPUs, or 2 CPU slots if their `device` is cpu."""
    return f"{count} {'CPU slot' if device == 'cpu' else 'GPU'}{'' if count == 1 else 's'}"


def gpu_time(hours: float) -> str:
    """Slots times hours, in the unit that suits it, with three digits: 18.4 s, 4.9 min, 12.3 h, 1,235 h."""
    for size, unit in ((1, "h"), (60, "min")):
        if hours * size >= 1:
            return f"{_amount(hours * size)} {unit}"
    return f"{_amount(hours * 3600)} s"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
