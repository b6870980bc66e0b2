"""The commands on a page, with the output that the page shows for them, and how outputs are compared: in shape.

Ids, times and figures differ from run to run. Words, columns and their order must agree. Used by
`tests.acceptance.test_page_sessions`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)((?:    (?! ).*\n(?:     +.*\n)*)+)")
_FIRST_WORD = re.compile(r"(\.venv/bin/|sudo )?(hora|make|curl|docker|export|cd|apt-get|chown|chmod|HORA_\w+=\S+)\b")
# An id. One in fifty has no digit and looks like a word. But no word of a page has just the letters of ids, or it is
# alone on its line, or the first one.
ID = re.compile(
    r"\b(?=[0-9a-z]*[0-9])(?=[0-9a-z]*[a-z])[0-9a-z]{12}\b|\b[a-hjkmnp-tv-z]{12}\b|^[0-9a-z]{12}(?=\s|$)", re.MULTILINE
)
_MASKS = (  # in this order
    (ID, "ID"),
    (re.compile(r"https?://[^\s/]+(/\S*)?"), "URL"),
    (re.compile(r"\(state and logs in \S+\)"), "(state)"),
    (re.compile(r"\[[a-z0-9_-]+\]"), "[]"),
    (re.compile(r"-?\d[\d,.]*(e-?\d+)?"), "#"),
    (re.compile(r"# (ms|s|min|h|d)( #? ?\d* ?(s|min|h))?( # (s|min|h))?(?=\W|$)"), "#T"),
    (re.compile(r"# (B|kB|MB|GB)\b"), "#B"),
    (re.compile(r"\b1 epoch\b|# epochs?\b"), "# epochs"),
    (re.compile(r"\s+"), " "),
)
_IN_ANY_ORDER = ("slot time",)  # what takes longest comes first
# A watcher may come too late for a status. Whether there is a finding depends on how busy the machine is.
_BY_CHANCE = re.compile(r"(queued|launching|running|findings)\b.*")
_READY = ("Hora is already running", "Hora is ready")


@dataclass
class Command:
    """A command of a page, at its line, and the outputs shown below it or below its block."""

    line: int
    text: str
    block: int
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class File:
    """A file that the page tells to save, before the command that follows."""

    line: int
    name: str
    content: str


def session(page: str) -> list[Command | File]:
    """The commands and files of a page, from top to bottom.

    A fence without a language, or the lines below a command in a `console` fence, are its output.
    """
    found: list[Command | File] = []
    lines = page.splitlines()
    for number, (line, language, text) in enumerate(_blocks(page)):
        commands = [one for one in found if isinstance(one, Command)]
        if language == "console":
            found += _of_console(line, text, number)
        elif language in ("sh", "indented") and _FIRST_WORD.match(text):
            found += [Command(line, command, number) for command in _joined(text)]
        elif language == "yaml" and re.search("^base:", text, re.MULTILINE):
            found.append(File(line, "study.yaml", text))
        elif language == "" and commands and not _is_heading_between(lines, commands[-1].line, line):
            last = commands[-1].block
            for command in commands:
                if command.block == last:
                    command.shown.append(text)
    return found


def _is_heading_between(lines: list[str], first: int, last: int) -> bool:
    return any(line.startswith("## ") for line in lines[first:last])


def _blocks(page: str) -> Iterator[tuple[int, str, str]]:
    """The fenced and the indented blocks: line, language, text."""
    blocks = [(match.start(), match[1], match[2]) for match in _FENCED.finditer(page)]
    without = _FENCED.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), page)
    blocks += [
        (match.start(), "indented", re.sub("^    ", "", match[1], flags=re.MULTILINE))
        for match in _INDENTED.finditer(without)
    ]
    for start, language, text in sorted(blocks):
        yield page[:start].count("\n") + 1, language, text


def _of_console(line: int, text: str, number: int) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield Command(line, _without_comment(command), number, [output] if output.strip() else [])


def _joined(text: str) -> list[str]:
    """The commands of a block, whose lines may go on after a backslash."""
    lines = text.replace("\\\n", " ").splitlines()
    return [_without_comment(line) for line in lines if line.strip()]


def _without_comment(command: str) -> str:
    return re.sub(r"\s+# .*", "", command).strip()


def differences(shown: str, printed: str) -> list[str]:
    """The lines that a page shows and the command does not print, in this order. `...` stands for anything."""
    actual = [line for line in map(shape, printed.splitlines()) if line and not _BY_CHANCE.fullmatch(line)]
    missing, place = [], 0
    for line in shown.splitlines():
        expected = shape(line)
        if not expected or expected == "..." or _BY_CHANCE.fullmatch(expected):
            continue
        pattern = re.compile(".*".join(map(re.escape, expected.split("..."))))
        at = next((at for at in range(place, len(actual)) if _agree(pattern, expected, actual[at])), None)
        if at is None:
            missing.append(line)
        else:
            place = at + 1
    return missing


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    text = line.strip().replace(*_READY)
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text.strip()


def _agree(pattern: re.Pattern[str], expected: str, actual: str) -> bool:
    for label in _IN_ANY_ORDER:
        if expected.startswith(label):
            return actual.startswith(label)
    return pattern.fullmatch(actual) is not None
