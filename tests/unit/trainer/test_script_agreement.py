"""The scripts of all ranks stop at the same call, and when early stopping wants that."""

import ctypes
import os
import threading
from pathlib import Path

import pytest

from hora.run.stopping import Control as ScriptSide
from trainer.script import agreement
from trainer.script.agreement import Agreement, announce_stop, announced_stop, leave
from trainer.script.control import Control, Fields
from trainer.script.patience import Patience
from trainer.script.store import Store


class Texts(Store):
    """A store without a launcher: what the threads of one process tell each other."""

    def __init__(self) -> None:
        super().__init__("secret", {})
        self._texts: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        self._texts[key] = value

    def get(self, key: str) -> str | None:
        return self._texts.get(key)


class Script:
    """A script that has asked so often, by the file that it shares with its rank."""

    def __init__(self, path: Path, calls: int) -> None:
        self.control = Control(path)
        self.path = path
        content = bytearray(path.read_bytes())
        ScriptSide.from_buffer(content).calls = calls
        path.write_bytes(content)

    @property
    def stop_at(self) -> int:
        return int(ScriptSide.from_buffer_copy(self.path.read_bytes()).stop_at)


def agree(scripts: list[Script], store: Store, absent: tuple[int, ...] = ()) -> None:
    threads: list[threading.Thread] = [
        Agreement(script.control, store, rank=rank, size=len(scripts))
        for rank, script in enumerate(scripts)
        if rank not in absent
    ]
    for thread in reversed(threads):  # rank 0 last
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_both_sides_of_the_file_have_the_same_layout(tmp_path: Path) -> None:
    assert ScriptSide._fields_ == Fields._fields_
    control = Control(tmp_path / "control")
    control.hold()
    control.decide(7)
    seen = ScriptSide.from_buffer_copy((tmp_path / "control").read_bytes())
    assert (seen.calls, seen.answered_yes, seen.stop_requested, seen.stop_at) == (0, 0, 1, 7)
    assert (tmp_path / "control").stat().st_size == ctypes.sizeof(ScriptSide)
    assert not control.has_answered_yes
    with pytest.raises(FileExistsError):
        Control(tmp_path / "control")


def test_a_script_that_cuts_the_file_off_harms_nobody(tmp_path: Path) -> None:
    control = Script(tmp_path / "control", calls=7).control
    assert control.calls == 7
    os.truncate(tmp_path / "control", 0)
    assert (control.calls, control.has_answered_yes) == (0, False)
    control.hold()
    control.decide(3)


@pytest.mark.parametrize("calls", [[0], [5], [5, 7, 6], [9, 0]])
def test_all_ranks_stop_after_the_one_that_asked_most(tmp_path: Path, calls: list[int]) -> None:
    scripts = [Script(tmp_path / str(rank), asked) for rank, asked in enumerate(calls)]
    agree(scripts, Texts())
    assert [script.stop_at for script in scripts] == [max(calls) + 1] * len(calls)


def test_a_rank_that_left_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_COLLECT_S", 3600.0)
    for left in (0, 1):
        store = Texts()
        scripts = [Script(tmp_path / f"{left}-{rank}", 4 + rank) for rank in range(2)]
        leave(scripts[left].control, store, rank=left)
        agree(scripts, store, absent=(left,))
        assert scripts[1 - left].stop_at == (1 if left == 0 else 6)


def test_a_silent_rank_is_not_waited_for_for_ever_and_nonsense_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Texts()
    store.put("calls-1", "zzz")
    Agreement(Script(tmp_path / "control", calls=5).control, store, rank=0, size=2).run()
    assert store.get("stop-at") == "6"
    assert announced_stop(store) is None
    announce_stop(store, "early_stopped")
    assert announced_stop(store) == "early_stopped"
    monkeypatch.setattr(agreement, "_COLLECT_S", 0.05)
    scripts = [Script(tmp_path / str(rank), 4) for rank in range(2)]
    agree(scripts, Texts(), absent=(1,))
    assert scripts[0].stop_at == 5
    agree(scripts, Texts(), absent=(0,))
    assert scripts[1].stop_at == 1


@pytest.mark.parametrize(
    ("is_lower_better", "values"), [(True, [5.0, 4.0, 3.95, float("nan")]), (False, [1.0, 2.0, 2.05, float("-inf")])]
)
def test_patience_ends_after_epochs_without_enough_improvement(is_lower_better: bool, values: list[float]) -> None:
    patience = Patience("m", patience=2, min_delta=0.1, is_lower_better=is_lower_better)
    seen = []
    for value in values:
        patience.note({"m": value})
        patience.note({"other": 0.0})
        seen.append((patience.best, patience.waited, patience.is_over))
    best = values[1]
    assert seen == [(values[0], 0, False), (best, 0, False), (best, 1, False), (best, 2, True)]
    later = Patience("m", patience=2, min_delta=0.1, is_lower_better=is_lower_better)
    later.resume(best, 1)
    later.note({"m": values[0]})
    assert later.is_over
