"""The pipe through which a script tells its rank something."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from trainer.script.channel import Channel, checked

REPORT = {"kind": "report", "at": 1.0, "step": 3, "epoch": 1, "metrics": {"loss": 0.5}, "phases": {"data": 0.1}}

ALERT = {"kind": "alert", "at": 1.0, "level": "info", "title": "a", "text": "é" * 1000, "wait_s": 0.5}


@pytest.mark.parametrize(
    "message",
    [
        REPORT,
        {"kind": "report", "at": 1, "metrics": {}},
        {"kind": "progress", "at": 1.0, "done": 2, "total": 3.5},
        {"kind": "phase", "at": 1.0, "name": "load", "duration_s": 0.0},
        {"kind": "checkpoint", "at": 1.0, "step": 2**31 - 1, "duration_s": 1.5},
        {"kind": "resumed", "at": 1.0, "step": 0},
        ALERT,
    ],
)
def test_messages_of_known_kinds_are_taken_and_need_their_fields(message: dict[str, Any]) -> None:
    assert checked(json.dumps(message).encode()) == message
    for name in message.keys() - {"step", "epoch", "phases", "total", "text", "wait_s"} or {"at"}:
        assert checked(json.dumps({key: value for key, value in message.items() if key != name}).encode()) is None
    assert checked(json.dumps({**message, "extra": 1}).encode()) is None
    diverged = checked(json.dumps({**REPORT, "metrics": {"loss": float("nan")}}).encode())
    assert diverged is not None
    assert str(diverged["metrics"]["loss"]) == "nan"


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\xff", b"[]", b"3", b"{}", b'{"kind": ["report"]}', b'{"kind": "planned", "at": 1}', b"[" * 100_000,
        b'{"kind": "resumed", "at": 1' + b"0" * 400 + b', "step": 1}',
        b'{"kind": "resumed", "at": 1' + b"0" * 5000 + b', "step": 1}',
    ],
    ids=lambda line: repr(line[:30]),
)  # fmt: skip
def test_what_is_no_message_is_left_out(line: bytes) -> None:
    assert checked(line) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", -1), ("at", float("nan")), ("at", float("inf")), ("at", 1e12), ("at", True), ("at", "1"), ("at", None),
        ("step", -1), ("step", 2**31), ("step", 1.0), ("step", True), ("epoch", "1"), ("epoch", None),
        ("metrics", []), ("metrics", {"loss": 1}), ("metrics", {"loss": "1"}), ("metrics", {"loss": None}),
        ("metrics", {"a b": 1.0}), ("metrics", {"a\n": 1.0}), ("metrics", {"a" * 65: 1.0}),
        ("metrics", {f"m{number}": 1.0 for number in range(257)}),
        ("phases", {"data": -1}), ("phases", {"data": float("nan")}), ("phases", {"data": 10**400}),
        ("phases", {"a" * 61: 1.0}),
        ("level", "fatal"), ("level", ["info"]), ("title", ""), ("title", "a" * 101), ("title", None),
        ("title", "\ud800"), ("text", "a" * 1001), ("text", "\udfff"), ("wait_s", -1.0), ("wait_s", "1"),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_a_wrong_field_leaves_the_message_out(field: str, value: object) -> None:
    message = REPORT if field in {*REPORT, "step", "epoch"} else ALERT
    assert checked(json.dumps({**message, field: value}).encode()) is None


def test_a_channel_joins_the_parts_of_lines_and_warns_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel = Channel(tmp_path / "channel")
    try:
        assert stat.S_IMODE((tmp_path / "channel").stat().st_mode) == 0o600
        writing = os.open(tmp_path / "channel", os.O_WRONLY)
        assert (list(channel.messages()), channel.has_content()) == ([], False)
        line = json.dumps(REPORT).encode()
        os.write(writing, line + b"\nnonsense\n" + line[:20])
        assert channel.has_content()
        assert (list(channel.messages()), channel.has_content()) == ([REPORT], False)
        os.write(writing, line[20:] + b"\nother nonsense\n")
        os.close(writing)  # the end of one writer is not the end of the channel
        assert list(channel.messages()) == [REPORT]
        assert list(channel.messages()) == []
        printed = capsys.readouterr().out
        assert printed.count("left out") == 1
        assert "b'nonsense'" in printed
    finally:
        os.close(channel.descriptor)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    channel = Channel(tmp_path / "channel")
    try:
        with open(tmp_path / "channel", "wb", buffering=0) as writing:
            for _ in range(20):
                writing.write(b"x" * 5000)
                assert list(channel.messages()) == []
                assert len(channel._rest) <= 8192
            writing.write(b"\n" + json.dumps(REPORT).encode() + b"\n")
            assert list(channel.messages()) == [REPORT]
    finally:
        os.close(channel.descriptor)
