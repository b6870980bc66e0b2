"""Errors of the system in words for people, without paths of a host. Pure; used by workers and by ranks.

What is stored with a job is read by people who may know nothing of the host. Logs keep the whole error.
"""

import re

# A path of at least two parts. The characters before it must not make it a part of an address or of a relative path.
_PATH = re.compile(r"(?<![\w.:/])(?:/[^\s/'\"<>:,;()]+)+/([^\s/'\"<>:,;()]*)")

# A path between quotes may have blanks. Elsewhere nothing says where such a path ends.
_QUOTED_PATH = re.compile(r"""(['"])/(?:(?!\1)[^\n])*/((?:(?!\1)[^/\n])*)\1""")


def in_words(error: BaseException) -> str:
    """An unforeseen error in words: its kind and its text. A path is shortened to its last name."""
    if not isinstance(error, OSError) or not error.strerror:
        return f"{type(error).__name__}: {without_paths(str(error))}"
    names = [name.rpartition("/")[2] for name in map(_text, (error.filename, error.filename2)) if name]
    return f"{error.strerror}: {' and '.join(map(repr, names))}" if names else error.strerror


def without_paths(text: str) -> str:
    """A text in which each absolute path is shortened to its last name. A path with blanks must be in quotes."""
    return _PATH.sub(r"\1", _QUOTED_PATH.sub(r"\1\2\1", text))


def without_folder(text: str, folder: str) -> str:
    """A text in which the paths below a folder begin below it. For texts that name data as a person named them."""
    return text.replace(f"{folder}/", "")


def _text(filename: object) -> str:
    """A name that an `OSError` carries: text, bytes, a path, or the number of a descriptor."""
    if isinstance(filename, bytes):
        return filename.decode("utf-8", "backslashreplace")
    return "" if filename is None or isinstance(filename, int) else str(filename)
