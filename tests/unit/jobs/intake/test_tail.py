"""Following a file by whole lines: no byte is read twice, no byte is lost, and no character is split."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.intake.tail import MAX_LINE_BYTES, MAX_READ_BYTES, Tail


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as output:
        output.write(data)


def everything(tail: Tail) -> list[bytes]:
    """All lines that are left. Moves the offset on after each read, as a caller does."""
    all_lines: list[bytes] = []
    while True:
        lines, after = tail.read()
        if after == tail.offset:
            break
        all_lines += lines
        tail.offset = after
    lines, tail.offset = tail.read(final=True)
    return all_lines + lines


def test_lines_are_read_from_the_offset_without_their_line_ends(file: Path) -> None:
    tail = Tail(file)
    assert tail.read() == tail.read(final=True) == ([], 0), "there is no file yet"
    append(file, b"one\ntwo\n\nfour\n")
    assert tail.read() == tail.read() == ([b"one", b"two", b"", b"four"], 14)
    assert tail.offset == 0, "the caller moves it"
    assert Tail(file, offset=4).read() == ([b"two", b"", b"four"], 14)
    assert Tail(file, offset=14).read() == ([], 14)


def test_long_line_is_returned_in_pieces_before_it_ends(file: Path) -> None:
    append(file, b"a" * MAX_LINE_BYTES)
    assert Tail(file).read() == ([b"a" * MAX_LINE_BYTES], MAX_LINE_BYTES)
    append(file, b"a" * (MAX_LINE_BYTES + 5) + b"\nnext\n")
    lines, _ = Tail(file).read()
    assert [len(line) for line in lines] == [MAX_LINE_BYTES, MAX_LINE_BYTES, 5, 4]


def test_a_longer_limit_keeps_a_long_line_whole(file: Path) -> None:
    line = b"a" * (5 * MAX_LINE_BYTES)
    append(file, line)
    tail = Tail(file, longest=MAX_READ_BYTES)
    assert tail.read() == ([], 0)
    append(file, b"\n")
    assert tail.read()[0] == [line]


def test_one_read_has_a_size_limit_and_the_next_continues(file: Path) -> None:
    line = b"x" * 99 + b"\n"
    append(file, line * 20_000)
    tail = Tail(file)
    first, after = tail.read()
    assert 0 < after <= MAX_READ_BYTES
    assert after == 100 * len(first)
    assert len(everything(tail)) == 20_000


@pytest.mark.parametrize("letter", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
@pytest.mark.parametrize("end", ["", "\n"])
def test_pieces_never_split_a_character(file: Path, letter: str, shift: int, end: str) -> None:
    text = "a" * shift + letter * MAX_LINE_BYTES
    append(file, (text + end).encode())
    pieces = everything(Tail(file))
    assert all(len(piece) <= MAX_LINE_BYTES for piece in pieces)
    assert "".join(piece.decode() for piece in pieces) == text


@pytest.mark.parametrize("byte", [b"\x80", b"\xff", b"\xf0"])
def test_bytes_that_are_not_utf_8_are_read_unchanged(file: Path, byte: bytes) -> None:
    append(file, byte * (3 * MAX_LINE_BYTES + 1))
    assert b"".join(everything(Tail(file))) == byte * (3 * MAX_LINE_BYTES + 1)


@settings(max_examples=50)
@given(chunks=st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"a", b"\n")), max_size=12))
def test_every_line_is_read_once_however_writes_split_it(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("tail") / "log"
    tail = Tail(file)
    lines: list[bytes] = []
    for chunk in chunks:
        append(file, chunk)
        new, tail.offset = tail.read()
        lines += new
    lines += everything(tail)
    expected = b"".join(chunks).split(b"\n")
    assert lines == (expected if expected[-1] else expected[:-1])
