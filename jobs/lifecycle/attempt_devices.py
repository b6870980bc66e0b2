"""The devices that attempts ran on, slot by slot. Called by reports, advice and the api."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import Slot

CPU = "cpu"  # the device of a CPU slot; that of a GPU is its model's name
Shares = Sequence[Mapping[str, Any]]  # of an attempt, as its row has them


def devices_of(session: Session, attempts: Sequence[Shares]) -> list[list[str | None]]:
    """For each attempt, by its shares, the device of each of its slots.

    Attempts of earlier versions do not say: theirs are those that their hosts have now. None where a slot is gone.
    """
    silent_hosts = {share["host"] for shares in attempts for share in shares if not share.get("devices")}
    present = _present_devices(session, silent_hosts) if silent_hosts else {}
    return [[device for share in shares for device in _of_share(share, present)] for shares in attempts]


def _of_share(share: Mapping[str, Any], present: Mapping[tuple[str, int], str]) -> Sequence[str | None]:
    return share.get("devices") or [present.get((share["host"], index)) for index in share["slots"]]


def _present_devices(session: Session, hosts: Collection[str]) -> dict[tuple[str, int], str]:
    """The device of each slot of these hosts now."""
    rows = session.execute(select(Slot.host, Slot.index, Slot.kind, Slot.name).where(Slot.host.in_(hosts)))
    return {(host, index): CPU if kind == CPU else name for host, index, kind, name in rows}
