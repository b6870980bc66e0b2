"""What the command line shows of the notes on a job. Pure."""

from hora.render.text import plain

_MOST_LINES, _MOST_CHARACTERS = 5, 200  # among the facts of a job


def first_lines(notes: str) -> str:
    """The first lines of notes that are not empty, and whether there is more."""
    lines = [line for line in notes.split("\n") if line.strip()]
    shown = [plain(line[:_MOST_CHARACTERS]) for line in lines[:_MOST_LINES]]
    is_cut = len(lines) > _MOST_LINES or any(len(line) > _MOST_CHARACTERS for line in lines)
    return "\n".join([*shown, *(["… (`hora note` prints all)"] if is_cut else [])])
