"""The mark of a store: a small file that says that this is the store of this stack.

A bucket that somebody emptied, and a folder whose disk is not mounted, look like a store in which nothing is. Whoever
believed it would train a job from its start again, or fill the wrong disk. So a store gets a mark when it is first
used, and a row says so. A store that has a row and no mark is away.
"""

import json
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.copies.store import NotInStore, Store, StoreAway
from jobs.db.engine import Sessions
from jobs.db.tables import MarkedStore

MARK = "hora-store.json"  # its key


def has_mark(store: Store) -> bool:
    """Whether a store has its mark. Raises `StoreAway`."""
    try:
        store.read(MARK)
    except NotInStore:
        return False
    return True


def marked_at(session: Session, store: Store) -> datetime | None:
    """When a store got its mark, by its row. None: this stack has not used it yet."""
    return session.scalar(select(MarkedStore.marked_at).where(MarkedStore.url == store.url))


def require_mark(sessions: Sessions, store: Store) -> None:
    """Make sure that the store is there and can be read. A store of a new URL gets its mark. Raises `StoreAway`."""
    with sessions() as session:
        since = marked_at(session, store)
    if has_mark(store):
        if since is not None:
            return
    elif since is not None:
        raise StoreAway(f"it was emptied, or it is not mounted: {MARK} is gone, which was written on {since:%Y-%m-%d}")
    else:
        store.write(MARK, json.dumps({"marked_at": datetime.now(UTC).isoformat()}).encode())
    with sessions.begin() as session:
        session.execute(insert(MarkedStore).values(url=store.url).on_conflict_do_nothing())
