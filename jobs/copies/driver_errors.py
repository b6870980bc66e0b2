"""What the drivers of stores say when they fail, in words and without secrets. Used by `jobs.copies.store`.

A driver may quote its options, the address with a signature, or a user and a password. What it says is stored with jobs
and hosts, and everybody who may see these reads it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.model.os_errors import in_words, without_paths

_LEAST_SECRET = 4  # characters: shorter values of options are words such as "v4"
_USER_INFO = re.compile(r"://[^/\s@\"']*@")
_QUERY = re.compile(r"(https?://[^\s?\"']*)\?[^\s\"']*")
_URL = re.compile(r"https?://\S+")


class Masks:
    """Hides what the options of a driver say, but for addresses."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        texts = (text for text in _texts(options) if len(text) >= _LEAST_SECRET and not _URL.fullmatch(text))
        self._secrets = sorted(texts, key=len, reverse=True)

    def sentence(self, error: Exception) -> str:
        """An error of a driver in words, without secrets."""
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            return self.hidden(in_words(error))
        text = self.hidden(without_paths(str(error))).strip()
        return f"{type(error).__name__}: {text}" if text else type(error).__name__

    def hidden(self, text: str) -> str:
        """A text without secrets."""
        text = _QUERY.sub(r"\1", _USER_INFO.sub("://...@", text))
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return text


def says_no_bucket(error: FileNotFoundError) -> bool:
    """Whether it is not a file that was not found, but all that is above it."""
    answer = getattr(error.__cause__, "response", None) or {}
    return bool(answer.get("Error", {}).get("Code") == "NoSuchBucket")


def _texts(options: Any) -> Iterator[str]:
    """The texts in the options of a driver, however deep."""
    if isinstance(options, str):
        yield options
    elif isinstance(options, Mapping):
        for value in options.values():
            yield from _texts(value)
    elif isinstance(options, list):
        for value in options:
            yield from _texts(value)
