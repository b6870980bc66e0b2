"""What the command line says of copies in the store: sentences, from the API's JSON. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hora.render.text import clock, count, duration, plain
from jobs.runtime.files import size_text


def behind_text(behind: Mapping[str, Any], now: datetime | None = None) -> str:
    """What waits to be copied, as part of a sentence.

    the checkpoint of step 1,200 (1.2 GB) has waited on host ha since 14:02 UTC to be copied to the store: it refuses
    """
    size = size_text(behind["bytes"])
    if behind.get("step") is None:
        subject = f"artifacts ({size}) have"
    else:
        subject = f"the checkpoint of step {count(behind['step'])} ({size}) has"
    place = f"on host {plain(behind['host'])} since {clock(behind['since'], now)}"
    return f"{subject} waited {place} to be copied to the store: {plain(behind.get('why') or 'it is slow')}"


def event_text(kind: str, data: Mapping[str, Any]) -> str | None:
    """An event about the store that is news to a person; None for all other events."""
    if kind == "copies_behind":
        return behind_text(data)
    if kind == "checkpoint_fetched":
        step, took = count(data["step"]), duration(data["duration_s"])
        return f"the checkpoint of step {step} was fetched from the store: {size_text(data['bytes'])} in {took}"
    if kind == "waits_for_files":
        return waits_text(data)
    return None


def waits_text(data: Mapping[str, Any]) -> str:
    """What an attempt waits for before its ranks start, as part of a sentence."""
    if data.get("dataset") is None:
        return f"it waits for what it starts from: {plain(data['why'])}"
    hosts = ", ".join(map(plain, data["hosts"]))
    return f"it waits for {plain(data['dataset'])}, which {hosts} must fetch from the store"
