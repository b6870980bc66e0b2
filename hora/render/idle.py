"""What the command line says of slots that nobody uses: sentences, from the API's JSON. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hora.render.text import clock, plain

_WILL = {"pause": "it is paused", "stop": "it is stopped"}
_DID = {"pause": "paused", "stop": "stopped"}


def idle_text(notice: Mapping[str, Any], now: datetime | None = None) -> str:
    """The notice of a job, as part of a sentence.

    its 8 GPUs are used less than 5 % since 14:02 UTC: at 14:32 UTC it is paused, unless they are used again
    paused: its 8 GPUs were below 5 % for 30 minutes
    """
    why = plain(notice["why"])
    if notice.get("acted_at"):
        return f"{_DID.get(notice['action'], plain(notice['action']))}: {why}"
    warning = f"{why} since {clock(notice['since'], now)}"
    if notice.get("acts_at") is None:
        return warning
    will = _WILL.get(notice["action"], plain(notice["action"]))
    return f"{warning}: at {clock(notice['acts_at'], now)} {will}, unless they are used again"


def idle_event_text(kind: str, data: Mapping[str, Any]) -> str | None:
    """An event about idle slots; None for all other events."""
    if kind in ("idle_warned", "idle_acted"):
        return idle_text(data)
    if kind == "idle_withdrawn":
        return f"the warning about idle slots is withdrawn: {plain(data['why'])}"
    return None
