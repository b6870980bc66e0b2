"""The mark of a store: a small file that says that this is the store of this stack.

A bucket that somebody emptied, and a folder whose disk is not mounted, look like a store in which nothing is. Whoever
believed it would train a job from its start again, or fill the wrong disk. So a store gets a mark when it is first
used, and a row says so. A store that has a row and no mark is away.
"""

import json
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from jobs.copies.store import NotInStore, Store, StoreAway
from jobs.db.engine import Sessions
from jobs.db.tables import MarkedStore

_KEY = "hora-store.json"


def require_mark(sessions: Sessions, store: Store) -> None:
    """Make sure that the store is there and can be read. A store of a new URL gets its mark. Raises `StoreAway`."""
    try:
        store.read(_KEY)
    except NotInStore:
        with sessions() as session:
            marked_at = session.scalar(select(MarkedStore.marked_at).where(MarkedStore.url == store.url))
        if marked_at is not None:
            raise StoreAway(
                f"it was emptied, or it is not mounted: {_KEY} is gone, which was written on {marked_at:%Y-%m-%d}"
            ) from None
        store.write(_KEY, json.dumps({"marked_at": datetime.now(UTC).isoformat()}).encode())
        with sessions.begin() as session:
            session.execute(insert(MarkedStore).values(url=store.url).on_conflict_do_nothing())
