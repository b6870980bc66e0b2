"""Names and labels: any printable Unicode text, on one line and in one form. Pure; used by the spec and by the api.

name_text       the text of a name, checked
label_text      the same of a label's value, which may be empty
lines_text      a text of several lines, such as a note, checked
one_form        a text as it would be stored: a filter and the name that it looks for compare equal
is_printable    whether a text has no character that a name may not hold
cleaned         a name made from any text
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

MOST_IN_NAME = 128
MOST_IN_LABEL = 255
_MOST_MARKS = 8  # on one character; no script stacks as many, and a taller stack covers the lines above and below it

_JOINERS = "\u200c\u200d"  # emoji, Persian and Indic scripts need these two of all format characters
_MARGIN = f" \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000{_JOINERS}"  # what cannot be seen at either end
_AT_EITHER_END = re.compile(f"^[{_MARGIN}]+|[{_MARGIN}]+$")
# Control and format characters (those that reorder text are among these), halves of surrogate pairs, private use, ends
# of lines and of paragraphs.
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# An emoji newer than this Python's tables is unassigned here and welcome; these will never be anything to see.
_NEVER_SEEN = re.compile("[\u2065\ufdd0-\ufdef\ufff0-\ufff8\U000e0000-\U000e0fff]")
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and a symbol that are drawn as nothing


def name_text(text: str) -> str:
    """The name in its one form. Raises `ValueError` where it is empty, too long or not printable."""
    return _checked(text, MOST_IN_NAME, may_be_empty=False)


def label_text(text: str) -> str:
    """The label's value in its one form. Raises `ValueError` where it is too long or not printable."""
    return _checked(text, MOST_IN_LABEL, may_be_empty=True)


def lines_text(text: str) -> str:
    """The text with Unix line ends. Raises `ValueError` for control characters other than line ends and tabs."""
    text = text.replace("\r\n", "\n")
    for position, character in enumerate(text, 1):
        if (character < " " and character not in "\n\t") or "\x7f" <= character < "\xa0":
            code = f"U+{ord(character):04X}"
            raise ValueError(f"character {position} is {code}: no control characters but line ends and tabs")
    return text


def one_form(text: str) -> str:
    """The text composed (NFC) and without white space at its ends: equal for all ways to type one name."""
    return _AT_EITHER_END.sub("", unicodedata.normalize("NFC", text))


def is_printable(text: str) -> bool:
    """Whether each character can be printed, and none reorders the text around it."""
    return not any(map(_is_refused, text))


def cleaned(text: str, most: int) -> str:
    """The first `most` characters of the text in its one form, with a hyphen for what no name may hold."""
    if text.isascii() and text.isprintable():
        return text.strip()[:most].strip()
    printable = one_form("".join("-" if _is_refused(character) else character for character in text))
    unstacked = "".join(
        character for character, marks in zip(printable, _marks_so_far(printable), strict=True) if marks <= _MOST_MARKS
    )
    return one_form(unstacked[:most])


# The cells of a study share their labels: each of these texts is checked once and not a thousand times.
@lru_cache(maxsize=512)
def _checked(text: str, most: int, *, may_be_empty: bool) -> str:
    if text.isascii() and text.isprintable() and text.strip() and len(text) <= most:  # quick, and the most frequent
        return text.strip()
    for position, character in enumerate(text, 1):
        if _is_refused(character):
            name = unicodedata.name(character, "")
            code = f"U+{ord(character):04X}" + (f" ({name})" if name else "")
            raise ValueError(f"character {position} is {code}, which cannot be printed")
    text = one_form(text)
    if len(text) > most:
        raise ValueError(f"has {len(text)} characters; {most} are allowed")
    if text and unicodedata.category(text[0]).startswith("M"):
        raise ValueError("begins with a mark that belongs on the character before it")
    if max(_marks_so_far(text), default=0) > _MOST_MARKS:
        raise ValueError(f"has more than {_MOST_MARKS} marks on one character")
    if not any(map(_is_seen, text)) and not (may_be_empty and not text):
        raise ValueError("has nothing to see; write at least one letter, digit or symbol")
    return text


def _marks_so_far(text: str) -> Iterator[int]:
    """For each character how many marks stand on the last character that is none, this one included."""
    marks = 0
    for character in text:
        if unicodedata.category(character).startswith("M"):
            marks += 1
        elif character not in _JOINERS:
            marks = 0
        yield marks


def _is_refused(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Cn":
        return _NEVER_SEEN.match(character) is not None or ord(character) & 0xFFFE == 0xFFFE
    return category in _REFUSED and character not in _JOINERS


def _is_seen(character: str) -> bool:
    return unicodedata.category(character)[0] not in "ZM" and character not in _JOINERS and character not in _BLANK
