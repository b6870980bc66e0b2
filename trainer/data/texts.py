"""Texts as numbers: what a word is, which words a network knows, and how texts become its input. Pure.

Used by `trainer.data.parquet`, `trainer.data.opening` and the session.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from heapq import nsmallest
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from trainer.errors import BadData

PADDING, UNKNOWN = 0, 1  # numbers that are of no word
MOST_WORDS = 4_000_000  # different ones in a collection
VOCABULARY_ATTRIBUTE = "hora_vocabulary_sha256"  # of a file of weights

_NO_WORDS = ("[PAD]", "[UNK]")  # stand for those two: no word has brackets
_BLANK = ord(" ")


class _Letters(dict[int, int]):
    """The code of each character of words, and a blank for all other characters. Filled as they come."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        kept = self[code] = code if character.isalnum() or character == "_" else _BLANK
        return kept


_LETTERS = _Letters()


def words_of(text: str, most: int) -> list[str]:
    r"""The first words of a text: runs of letters, digits and `_`, in lower case.

    They are those of `re.findall(r"\w+", text.lower())`, found twice as fast.
    """
    return text.lower().translate(_LETTERS).split(None, most)[:most]


def count_words(times: Counter[str], texts: Sequence[str], occurrences: Sequence[int], *, length: int) -> None:
    """Add the words of distinct texts to `times`, each as often as its text occurs."""
    for text, repeats in zip(texts, occurrences, strict=True):
        words = words_of(text, length)
        if repeats == 1:
            times.update(words)  # as fast as C
        else:
            for word in words:
                times[word] += repeats


def check_words(times: Mapping[str, int], *, name: str) -> None:
    """Raise `BadData` if there are more different words than a survey keeps in memory."""
    if len(times) > MOST_WORDS:
        raise BadData(f"{name}: more than {MOST_WORDS:,} different words: is this column a text?")


def vocabulary_of(times: Mapping[str, int], *, most: int, name: str) -> tuple[str, ...]:
    """The most frequent words, behind the two names for padding and unknown words. Equal counts in the words' order.

    Raises `BadData` if there is no word.
    """
    check_words(times, name=name)
    if not times:
        raise BadData(f"{name}: there is not a single word in the texts")
    frequent = nsmallest(most, times.items(), key=lambda item: (-item[1], item[0]))
    return (*_NO_WORDS, *(word for word, _ in frequent))


def file_of(vocabulary: Sequence[str]) -> bytes:
    """The vocabulary as a file: one word a line."""
    return "".join(f"{word}\n" for word in vocabulary).encode()


def digest_of(vocabulary: Sequence[str]) -> str:
    """The SHA-256 of that file."""
    return sha256(file_of(vocabulary)).hexdigest()


@dataclass(frozen=True)
class Encoder:
    """Turns texts into the numbers of their words. The position of a word in the vocabulary is its number."""

    vocabulary: Sequence[str]
    length: int  # words of a text: more are cut off, missing ones are padded

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """(text, word) of each text."""
        known, length = self._numbers, self.length
        numbers = [[known.get(word, UNKNOWN) for word in words_of(text, length)] for text in texts]
        lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))
        encoded = np.full((len(numbers), length), PADDING, np.int32)
        encoded[np.arange(length) < lengths[:, np.newaxis]] = np.fromiter(
            chain.from_iterable(numbers), np.int32, int(lengths.sum())
        )
        return encoded

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}
