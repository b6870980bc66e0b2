"""What a supervisor knows of ranks that cannot write, because a disk is full. Used by the supervision of an attempt.

Their records stay in memory, so the files show no steps. Their notes (`worker.attempt.notes`) show that they go on.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from jobs.db.engine import Sessions
from jobs.lifecycle.leases import fence
from jobs.lifecycle.store import Lease
from jobs.model.records import RankExited, RankNote, parse_record
from jobs.model.states import EventKind
from jobs.runtime.settings import Settings
from jobs.runtime.space import can_write, shortage
from jobs.telemetry import ingest
from jobs.telemetry.ingest import EventRow, event_row
from worker.attempt.members import Members
from worker.attempt.notes import exits_in, read_notes
from worker.attempt.paths import AttemptPaths

_QUIET_S = 60.0  # between two events of a disk that is full again and again


class SpaceLookout:
    """Reads the notes of all ranks of an attempt."""

    def __init__(
        self, sessions: Sessions, lease: Lease, paths: AttemptPaths, lead_ranks: Iterable[int], members: Members
    ) -> None:
        self._sessions = sessions
        self._lease = lease
        self._paths = paths
        self._lead_ranks = list(lead_ranks)
        self._members = members
        self._notes: Mapping[int, RankNote] = {}
        self._event: EventRow | None = None  # to be stored
        self._event_at: float | None = None
        self._is_short = False

    def look(self) -> bool:
        """Read the notes. Returns whether a rank went on since the last look, or waits for space."""
        before, self._notes = self._notes, self._read()
        short = {rank: note for rank, note in self._notes.items() if note.why is not None and note.exit is None}
        was_short, self._is_short = self._is_short, bool(short)
        if short and not was_short:
            self._note_event(*min(short.items(), key=lambda item: item[0]))
        return any(note != before.get(rank) for rank, note in short.items())

    @property
    def waits(self) -> bool:
        """Whether a rank makes no steps and waits for space."""
        return any(note.waited_s and note.exit is None for note in self._notes.values())

    def store_event(self) -> None:
        """Store an event if ranks have begun to hold records back. Raises `StaleLease`, or the database's error.

        After such an error call it again: the database's disk may be the same one.
        """
        if self._event is not None:
            with self._sessions.begin() as session:
                fence(session, self._lease)
                ingest.store_events(session, [self._event])
            self._event = None

    def exits(self) -> dict[int, RankExited]:
        """The exit records that are in no file of records: in notes, and in lines that could not be stored here."""
        lines = {rank: text.rsplit(b"\n", 2)[-2:-1] for rank, text in self._members.unstored_records().items()}
        records = {rank: parse_record(last[0]) for rank, last in lines.items() if last}
        unstored = {rank: record for rank, record in records.items() if isinstance(record, RankExited)}
        return exits_in(self._read()) | unstored

    def _read(self) -> dict[int, RankNote]:
        notes = read_notes(self._paths.records, self._lead_ranks)
        of_members = {rank: RankNote.parse(text) for rank, text in self._members.notes().items()}
        return notes | {rank: note for rank, note in of_members.items() if note is not None}

    def _note_event(self, rank: int, note: RankNote) -> None:
        now = time.monotonic()
        if self._event_at is not None and now - self._event_at < _QUIET_S:
            return
        self._event_at = now
        data = {"rank": rank, "why": note.why}
        self._event = event_row(
            self._lease.job_id, EventKind.OUT_OF_SPACE, at=datetime.now(UTC), attempt=self._lease.number, data=data
        )


def no_space_for(paths: AttemptPaths, settings: Settings) -> str | None:
    """Why the files of an attempt cannot be written on this host now; None if they can."""
    if not paths.root.is_dir() or can_write(paths.root):
        return None
    return f"host {settings.host} has no space: {shortage(settings, 'runs') or 'runs cannot be written'}"
