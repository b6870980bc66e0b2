"""The service that a job has attained, in levels, and how long an attempt is left undisturbed. Pure.

Jobs that have had little come first: most jobs are short, and nobody has to say which. This is least attained service
with a few levels (Nuyens and Wierman, "The Foreground-Background queue: a survey", 2008), as Tiresias uses it for
training jobs (Gu et al., NSDI '19): with few levels, jobs of one level do not take turns for ever.
"""

import math
from bisect import bisect_right

LEVELS_SLOT_S = (1800.0, 7200.0)  # slot-seconds at which a job enters the next level: half an hour, and two hours
HALF_LIFE_S = 86_400.0  # usage of a day ago counts half
QUANTUM_S = 600.0  # an attempt runs at least so long before it makes room for a job of its own priority
_COSTS = 10.0  # and at least so many times what it costs to save and to go on
_OF_RUNNING = 0.03  # and at least this part of the time that its job has run
_OF_WAITING = 0.1  # and at least this part of the time that its job had just waited,
_MOST_FOR_WAITING_S = 3 * 3600.0  # up to this


def level_of(slot_s: float) -> int:
    """The level of a job that has held slots for so many slot-seconds. 0: it has had little."""
    return bisect_right(LEVELS_SLOT_S, slot_s)


def seconds_to_next_level(slot_s: float, gpus: int) -> float:
    """When a job that holds so many slots enters the next level; infinite if it is in the last one."""
    level = level_of(slot_s)
    return (LEVELS_SLOT_S[level] - slot_s) / gpus if level < len(LEVELS_SLOT_S) else math.inf


def decayed_s(held_s: float, half_life_s: float) -> float:
    """What is left now of a slot's use that began `held_s` ago: the integral of 2^(-t / half_life_s) over that time."""
    return half_life_s / math.log(2) * -math.expm1(-held_s / half_life_s * math.log(2))


def undisturbed_s(age_s: float, *, cost_s: float, ran_s: float, waited_s: float, quantum_s: float = QUANTUM_S) -> float:
    """How many seconds more an attempt of this age runs before it may have to make room. 0: it may now.

    `cost_s`: what its preemption would cost, in seconds of its slots. `ran_s`: how long its job has run, with this
    attempt. `waited_s`: how long its job waited before it. So a job is preempted at most as often as the logarithm of
    its duration, and a job that waited long also runs long.
    """
    waited = min(_OF_WAITING * waited_s, _MOST_FOR_WAITING_S)
    return max(max(quantum_s, _COSTS * cost_s, _OF_RUNNING * ran_s, waited) - age_s, 0.0)
