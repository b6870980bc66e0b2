"""Signs texts that clients keep for the service and send back. Used by `jobs.db.cursors` and `api.live.positions`.

All apis of a service sign with the key in the database. So each reads what another has signed, also after a restart.
The migration lets the database make the key: it is in no log and in no answer. A process reads it once.
"""

import hashlib
import hmac

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.engine import OF_PROCESS
from jobs.db.tables import SigningKey

SIGNATURE_BYTES = 16


def signature(session: Session, payload: bytes, *, of: str) -> bytes:
    """The signature of `payload` as a part of `of`, such as a list with its filters."""
    return hmac.digest(_key(session), of.encode() + b"\0" + payload, hashlib.sha256)[:SIGNATURE_BYTES]


def is_signed(session: Session, signed: bytes, payload: bytes, *, of: str) -> bool:
    """Whether `signed` is the signature of this payload; it takes as long for every wrong one."""
    return hmac.compare_digest(signed, signature(session, payload, of=of))


def _key(session: Session) -> bytes:
    remembered: dict[str, bytes] = session.info.setdefault(OF_PROCESS, {})
    if "signing key" not in remembered:
        remembered["signing key"] = session.execute(select(SigningKey.key)).scalar_one()
    return remembered["signing key"]
