"""The final plan, resolved from the opened data and the connected ranks. Used by the session.

Pure. `trainer.distributed` checks that all ranks have the same plan.
"""

from jobs.model.plan import DatasetSizes, Plan, UnworkablePlan, resolve_plan
from jobs.model.spec import Spec
from trainer.errors import BadData


def settle_plan(spec: Spec, sizes: DatasetSizes, *, gpus: int) -> Plan:
    """Resolve the spec on the opened data. Raises `BadData` if the two do not fit each other."""
    try:
        return resolve_plan(spec, sizes, gpus=gpus)
    except UnworkablePlan as error:
        raise BadData(f"{error.field}: {error}") from None


def steps_of(plan: Plan) -> tuple[int, int]:
    """(steps of an epoch, steps of its validation) of a plan that was resolved from real data."""
    assert plan.steps_per_epoch is not None
    assert plan.validation_steps is not None
    return plan.steps_per_epoch, plan.validation_steps
