"""The notes of ranks that cannot write their records, because the disk is full. Read by supervisors and agents.

A note is a file of a fixed size, made and filled before the ranks start. A rank overwrites it in place, which works on
a full disk. It says that the rank goes on while its records wait in memory, or why it ended.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from jobs.model.records import NOTE_BYTES, RankExited, RankNote, rank_note_name


def prepare(records: Path, ranks: Iterable[int]) -> None:
    """Make the notes of the ranks of a host. Blanks take the space that a note will need."""
    for rank in ranks:
        (records / rank_note_name(rank)).write_bytes(b" " * (NOTE_BYTES - 1) + b"\n")


def read_note(records: Path, rank: int) -> RankNote | None:
    """The note of a rank. None if it has none, or if it was read in the middle of a write."""
    try:
        text = (records / rank_note_name(rank)).read_bytes()
    except FileNotFoundError:
        return None
    return RankNote.parse(text)


def read_notes(records: Path, ranks: Iterable[int]) -> dict[int, RankNote]:
    """The notes of the ranks that have one."""
    notes = {rank: read_note(records, rank) for rank in ranks}
    return {rank: note for rank, note in notes.items() if note is not None}


def exits_in(notes: Mapping[int, RankNote]) -> dict[int, RankExited]:
    """The exit records in notes, by rank."""
    return {rank: note.exit for rank, note in notes.items() if note.exit is not None}
