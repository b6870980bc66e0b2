"""The rate of each update: the warm-up, then the schedule of the spec. Pure. Used by the callback that sets it.

All but `plateau` depend on the plan and the update alone. Updates are counted from 0, in steps of the plan: an update
of epoch 3 has the rate of epoch 3, also if earlier epochs had batches of another size.
"""

import math

from jobs.model.plan import Plan
from jobs.model.spec import ScheduleSpec
from trainer.plan import steps_of


def learning_rate_of(plan: Plan, schedule: ScheduleSpec, update: int, *, lowered: int = 0) -> float:
    """The rate of an update. `lowered` is how often a plateau has lowered it.

    It climbs linearly from the base rate to the plan's over the warm-up epochs: the gradual warm-up of Goyal et al.
    2017, arXiv:1706.02677, per step. Then it is the plan's, times what the schedule leaves of it.
    """
    steps = steps_of(plan)[0]
    warmup_steps = plan.warmup_epochs * steps
    if update < warmup_steps:
        return plan.base_learning_rate + (plan.learning_rate - plan.base_learning_rate) * update / warmup_steps
    rate = plan.learning_rate
    if schedule.name == "plateau":
        return _on_plateaus(schedule, rate, lowered)
    return rate * _share_left(schedule, update, steps=steps, warmup=plan.warmup_epochs, epochs=plan.epochs)


def _share_left(schedule: ScheduleSpec, update: int, *, steps: int, warmup: int, epochs: int) -> float:
    """What is left of the rate after the warm-up; 0..1.

    cosine        final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 at the end of the warm-up to 1 at the
                  end of the last epoch: Loshchilov and Hutter 2016, arXiv:1608.03983, without restarts
    step          factor ** (how many of the `epochs` have passed): He et al. 2015, arXiv:1512.03385
    exponential   factor ** (epochs since the warm-up), in each step by a part of an epoch
    """
    if schedule.name == "cosine":
        assert schedule.final is not None
        t = min(1.0, (update - warmup * steps) / (max(1, epochs - warmup) * steps))
        return schedule.final + (1 - schedule.final) * (1 + math.cos(math.pi * t)) / 2
    if schedule.name == "step":
        assert schedule.factor is not None
        assert schedule.epochs is not None
        return float(schedule.factor ** sum(update >= epoch * steps for epoch in schedule.epochs))
    if schedule.name == "exponential":
        assert schedule.factor is not None
        return float(schedule.factor ** (update / steps - warmup))
    return 1.0


def _on_plateaus(schedule: ScheduleSpec, rate: float, lowered: int) -> float:
    """rate x factor ** lowered, but not below `least`: the rule of Keras's callback ReduceLROnPlateau."""
    assert schedule.factor is not None
    assert schedule.least is not None
    return max(rate * float(schedule.factor**lowered), min(rate, schedule.least))
