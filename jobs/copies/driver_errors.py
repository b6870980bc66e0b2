"""What the drivers of stores say when they fail, in words and without secrets. Used by `jobs.copies.store`.

A driver may quote its options, the address with a signature, or a user and a password. What it says is stored with jobs
and hosts, and everybody who may see these reads it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from jobs.model.os_errors import in_words, without_paths

_LEAST_SECRET = 4  # characters: shorter values of options are words such as "v4"
_LEAST_SECRET_OF_ENVIRONMENT = 8
_USER_INFO = re.compile(r"://[^/\s@\"']*@")
_QUERY = re.compile(r"(https?://[^\s?\"']*)\?[^\s\"']*")
_URL = re.compile(r"https?://\S+")
_NO_SECRETS = {"defaultendpointsprotocol", "endpointsuffix"}  # parts of a connection string of Azure
# Variables that drivers read themselves. Those with paths are told by their names: a secret may begin with a slash.
_SECRET_VARIABLE = re.compile(r"(AWS|AZURE|GOOGLE)_.*(SECRET|KEY|TOKEN|PASSWORD|CREDENTIAL|CONNECTION_STRING).*")
_OTHER_VARIABLE = re.compile(r".*_(FILE|PATH|URI|URL)|AWS_ACCESS_KEY_ID|GOOGLE_APPLICATION_CREDENTIALS")


class Masks:
    """Hides what the options of a driver say, but for addresses, and the secrets in the environment of the process."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        texts = {*_with_parts(_texts(options)), *_with_parts(_secrets_of_environment())}
        secrets = {text for text in texts if len(text) >= _LEAST_SECRET and not _URL.fullmatch(text)}
        written = {form for text in secrets for form in (text, quote(text), quote(text, safe=""))}
        self._secrets = sorted(written, key=len, reverse=True)

    def sentence(self, error: Exception) -> str:
        """An error of a driver in words, without secrets. These are hidden before paths are shortened."""
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            names = (error.filename, error.filename2)
            shown = [self.hidden(os.fsdecode(name)) if isinstance(name, str | bytes) else None for name in names]
            return in_words(OSError(error.errno, self.hidden(str(error.strerror)), shown[0], None, shown[1]))
        text = without_paths(self.hidden(str(error))).strip()
        return f"{type(error).__name__}: {text}" if text else type(error).__name__

    def hidden(self, text: str) -> str:
        """A text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return _QUERY.sub(r"\1", _USER_INFO.sub("://...@", text))


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


def _with_parts(texts: Iterable[str]) -> Iterator[str]:
    """These texts, and the values in those that are written `name=value;name=value`."""
    for text in texts:
        yield text
        for part in text.split(";"):
            name, _, value = part.partition("=")
            if name.strip().lower() not in _NO_SECRETS:
                yield value.strip()


def _secrets_of_environment() -> Iterator[str]:
    """What the drivers read in the environment, if it is secret."""
    for name, value in os.environ.items():
        is_secret = _SECRET_VARIABLE.fullmatch(name) and not _OTHER_VARIABLE.fullmatch(name)
        if is_secret and len(value) >= _LEAST_SECRET_OF_ENVIRONMENT:
            yield value
