"""How many mails each user's webhooks may send in an hour. Used by `outbox`, in its transaction.

A webhook that posts reaches a receiver that agreed to it. Mail reaches anybody, through a server whose good name is the
operator's.
"""

from sqlalchemy import delete, func, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.db.tables import MailHour

_NOW = func.date_trunc("hour", func.now(), "UTC")
NEXT = _NOW + text("interval '1 hour'")  # when the next hour begins


def take(session: Session, owner: str, *, most: int) -> bool:
    """Count one more mail of the owner in this hour; False if it would be more than `most`."""
    mail = insert(MailHour).values(owner=owner, hour=_NOW, mails=1)
    counted = mail.on_conflict_do_update(
        index_elements=[MailHour.owner, MailHour.hour],
        set_={"mails": MailHour.mails + 1},
        where=MailHour.mails < most,
    ).returning(MailHour.mails)
    return session.scalar(counted) is not None


def remove_old(session: Session) -> None:
    """Remove the counts of past hours."""
    session.execute(delete(MailHour).where(MailHour.hour < _NOW), execution_options={"synchronize_session": False})
