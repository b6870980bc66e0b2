"""Since when slots are idle, by their samples, and what follows."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from jobs.model.idle import is_idle_text, was_idle_text
from jobs.model.spec import IdleSpec
from jobs.telemetry.idle_stretches import SlotUse, Step, Stretch, extended, step_after
from jobs.views.idle import IdleNotice

S = 1_000_000
ZERO = datetime(2030, 1, 1, tzinfo=UTC)


def use(*samples: tuple[float, float]) -> SlotUse:
    """Samples of a slot: at so many seconds, so many percent."""
    times, percent = zip(*samples, strict=True) if samples else ((), ())
    return SlotUse(np.array([round(at * S) for at in times], dtype=np.int64), np.array(percent, dtype=np.float64))


def quiet(seconds: Iterable[float]) -> SlotUse:
    return use(*((second, 1.0) for second in seconds))


def after(*slots: SlotUse, since: float = 0, until: float = 0) -> tuple[float, float]:
    """The stretch in seconds after these samples, from one of so many seconds."""
    stretch = Stretch(round(since * S), round(until * S))
    stretch = extended(stretch, slots, below=5.0, most_gap=30 * S)
    return stretch.since / S, stretch.until / S


def test_quiet_samples_extend_the_stretch_as_far_as_all_slots_were_measured() -> None:
    assert after(quiet(range(1, 100))) == (0, 99)
    assert after(quiet(range(61, 100)), since=20, until=60) == (20, 99)
    assert after(quiet(range(1, 100)), quiet(range(1, 50))) == (0, 49)
    assert after(quiet([1, 2]), since=10, until=20) == (10, 20), "older samples change nothing"


@pytest.mark.parametrize(("percent", "since"), [(4.99, 0), (5.0, 40), (100.0, 40)])
def test_a_use_of_one_slot_begins_the_stretch_again(percent: float, since: float) -> None:
    one_use = use(*((at, percent if at == 40 else 0.0) for at in range(1, 100)))
    assert after(quiet(range(1, 100)), one_use) == (since, 99)


def test_a_use_that_other_slots_were_not_measured_for_counts_later() -> None:
    first, later = (use(*((at, 90.0 if at == 80 else 0.0) for at in range(begin, 100))) for begin in (1, 60))
    assert after(quiet(range(1, 60)), first) == (0, 59)
    assert after(quiet(range(60, 100)), later, until=59) == (80, 99)


def test_what_was_not_measured_is_no_proof() -> None:
    assert after(quiet([*range(1, 20), *range(60, 100)])) == (60, 99), "a gap"
    assert after(quiet(range(40, 100))) == (40, 99), "a gap before the first sample"
    assert after(quiet([*range(1, 20), *range(45, 100)])) == (0, 99), "a gap that is short"
    assert after(quiet(range(1, 100)), use(), since=-50) == (-50, 0), "a slot without samples"
    assert after(since=-50) == (-50, 0), "no slots"


def test_a_gap_at_the_end_of_what_is_judged_is_seen() -> None:
    """One slot goes on only after the last sample of the other: the next look begins behind the gap."""
    since, until = after(quiet(range(1, 62)), quiet([61.5, 62]))
    assert (since, until) == (61.5, 61)
    assert after(quiet(range(62, 70)), quiet([61.5, *range(62, 70)]), since=since, until=until) == (61.5, 69)


POLICY = IdleSpec(below=5, for_s=1800, action="stop")


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def notice(**fields: object) -> IdleNotice:
    warned = {"attempt": 1, "below": 5, "for_s": 1800, "action": "stop", "since": at(0), "acts_at": at(1800), "why": ""}
    return IdleNotice.model_validate(warned | fields)


def step(said: IdleNotice | None, *, since: float = 0, until: float, policy: IdleSpec = POLICY) -> Step:
    return step_after(policy, said, since=at(since), until=at(until))


def test_pause_and_stop_warn_at_half_of_the_time_and_a_warning_at_the_whole() -> None:
    assert [step(None, until=until) for until in (899, 900, 5000)] == [Step.NONE, Step.WARN, Step.WARN]
    only_warns = IdleSpec(for_s=1800)
    assert [step(None, until=until, policy=only_warns) for until in (1799, 1800)] == [Step.NONE, Step.WARN]


def test_the_action_follows_when_its_time_was_measured_and_once() -> None:
    assert [step(notice(), until=until) for until in (1799, 1800)] == [Step.NONE, Step.ACT]
    assert step(notice(acted_at=at(1801)), until=5000) is Step.NONE
    only_warned = notice(action="warn", acts_at=None)
    assert step(only_warned, until=9000, policy=IdleSpec(for_s=1800)) is Step.NONE


def test_a_use_withdraws_the_warning_even_when_its_time_has_come() -> None:
    assert step(notice(), since=1000, until=1801) is Step.WITHDRAW
    assert step(notice(), since=1790, until=4000) is Step.WITHDRAW
    assert step(notice(acted_at=at(1801)), since=1802, until=1900) is Step.NONE, "it is over already"


@pytest.mark.parametrize("other", [{"below": 6}, {"for_s": 60}, {"action": "pause"}])
def test_another_policy_withdraws_the_warning(other: dict[str, object]) -> None:
    assert step(notice(), until=1000, policy=IdleSpec.model_validate(POLICY.model_dump() | other)) is Step.WITHDRAW


def test_it_is_said_in_words() -> None:
    assert is_idle_text(8, on_gpus=True, below=5) == "its 8 GPUs are used less than 5 %"
    assert was_idle_text(1, on_gpus=True, below=5, for_s=3600) == "its GPU was below 5 % for 1 hour"
    assert was_idle_text(2, on_gpus=True, below=5, for_s=90.5) == "its 2 GPUs were below 5 % for 90.5 seconds"
