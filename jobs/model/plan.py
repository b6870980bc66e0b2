"""The plan: a spec resolved against a dataset's size and a number of GPUs.

The api resolves it at submission if it knows the dataset. The trainer resolves it again from the data that it opened,
and that plan counts. Pure, so that both may import it.

    UnworkablePlan      the spec cannot train on this data; `field` names what to change
"""

from math import ceil

from pydantic import BaseModel, ConfigDict

from jobs.model.spec import OptimizerSpec, Spec

_EXPONENT = {"none": 0.0, "linear": 1.0, "sqrt": 0.5, "two_thirds": 2 / 3}
# How the rate of each optimizer grows with the batch. sgd: Goyal et al. 2017, arXiv:1706.02677. Optimizers that divide
# by the size of the gradients: Krizhevsky 2014, arXiv:1404.5997, Malladi et al. 2022, arXiv:2205.10287, and for lamb
# You et al. 2019, arXiv:1904.00962.
SCALING_OF_OPTIMIZER: dict[str, str] = {"sgd": "linear", **dict.fromkeys(("adam", "adamw", "lamb", "nadam"), "sqrt")}


class UnworkablePlan(ValueError):
    """The spec and the data do not fit each other; `field` is the spec field to change."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


class DatasetSizes(BaseModel):
    """Samples in each part of a dataset, after `balance` and the validation split, before `fraction`."""

    model_config = ConfigDict(frozen=True)

    train: int
    validation: int
    test: int = 0


class Plan(BaseModel):
    """The figures that a run uses. Sizes and step counts are null while the dataset's size is unknown.

    The batch of a GPU is what it holds in memory at a time. The global batch is that of an update.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpus: int
    per_gpu_batch: int
    global_batch: int
    base_batch: int
    base_learning_rate: float
    lr_factor: float
    learning_rate: float
    warmup_epochs: int
    epochs: int
    steps_per_epoch: int | None = None
    validation_steps: int | None = None
    train_samples: int | None = None
    validation_samples: int | None = None
    test_samples: int | None = None

    @property
    def per_gpu_samples(self) -> int:
        """Samples of an update on each GPU: of all its batches, if it accumulates the gradients of several."""
        return self.global_batch // self.gpus

    @property
    def accumulate(self) -> int:
        """Batches of each GPU in an update."""
        return self.per_gpu_samples // self.per_gpu_batch


def values_of_optimizer(optimizer: OptimizerSpec) -> int:
    """How many values an optimizer keeps for each trained parameter."""
    if optimizer.name == "sgd":
        return 1 if optimizer.momentum else 0
    return 2


def batches_in_batch_size(spec: Spec, *, gpus: int | None = None) -> int:
    """How many batches of a GPU the `batch_size` of a spec holds."""
    return (spec.gpus if gpus is None else gpus) * spec.accumulate if spec.batch_per == "global" else 1


def own_batch_of(spec: Spec) -> int:
    """The batch of one GPU that a spec asks for."""
    return spec.batch_size // batches_in_batch_size(spec)


def split_sizes(samples: int, validation: float) -> tuple[int, int]:
    """The number of training and of validation samples, if the share `validation` of `samples` is held out."""
    held_out = round(samples * validation)
    return samples - held_out, held_out


def lr_factor(policy: str, *, global_batch: int, base_batch: int) -> float:
    """The factor of the base rate: (global_batch / base_batch) ** exponent of the policy.

    linear: Goyal et al. 2017, arXiv:1706.02677; sqrt: Krizhevsky 2014, arXiv:1404.5997.
    """
    exponent: float = _EXPONENT[policy]
    return float((global_batch / base_batch) ** exponent)


def resolve_plan(spec: Spec, sizes: DatasetSizes | None, *, gpus: int | None = None) -> Plan:
    """Resolve batch, rate and steps of `spec` on `gpus` GPUs (default: as many as it asks for).

    An epoch drops the last samples that do not fill a global batch; validation covers every sample once, unless
    `validation_steps` asks for fewer batches.
    Raises `UnworkablePlan` if an epoch would have no step or a part would be empty.
    """
    gpus = spec.gpus if gpus is None else gpus
    batches = batches_in_batch_size(spec, gpus=gpus)
    if spec.batch_size % batches:
        over = f"{gpus} gpus" + (f" x {spec.accumulate} batches" if spec.accumulate > 1 else "")
        raise UnworkablePlan("batch_size", f"a global batch of {spec.batch_size} does not divide by {over}")
    per_gpu_batch = spec.batch_size // batches
    global_batch = per_gpu_batch * gpus * spec.accumulate
    base_batch = spec.base_batch or per_gpu_batch
    factor = lr_factor(spec.lr_scaling, global_batch=global_batch, base_batch=base_batch)
    plan = Plan(
        gpus=gpus,
        per_gpu_batch=per_gpu_batch,
        global_batch=global_batch,
        base_batch=base_batch,
        base_learning_rate=spec.learning_rate,
        lr_factor=factor,
        learning_rate=spec.learning_rate * factor,
        warmup_epochs=spec.warmup_epochs,
        epochs=spec.epochs,
        steps_per_epoch=spec.steps_per_epoch,
    )
    return (
        plan
        if sizes is None
        else plan.model_copy(update=_counts(spec, sizes, global_batch, at_once=per_gpu_batch * gpus))
    )


def _counts(spec: Spec, sizes: DatasetSizes, global_batch: int, *, at_once: int) -> dict[str, int]:
    train_samples = spec.own_dataset.used_samples(sizes.train)
    if spec.is_script:  # it reads the data in its own way: these figures are a proposal
        return {
            "steps_per_epoch": spec.steps_per_epoch or max(train_samples // global_batch, 1),
            "train_samples": train_samples,
            "validation_samples": sizes.validation,
            "test_samples": sizes.test,
        }
    if train_samples > sizes.train:
        of_what = "training samples in equal classes" if spec.own_dataset.balance else "training samples"
        raise UnworkablePlan("dataset.samples", f"there are {sizes.train} {of_what}, not {train_samples}")
    if sizes.validation == 0:
        raise UnworkablePlan("dataset.validation", "the validation part is empty")
    epoch_samples = train_samples * spec.own_dataset.copies
    if epoch_samples < global_batch:
        raise UnworkablePlan(
            "batch_size", f"a global batch of {global_batch} is larger than the {train_samples} training samples"
        )
    validation_steps = ceil(sizes.validation / at_once)
    if spec.validation_steps is not None:
        validation_steps = min(validation_steps, spec.validation_steps)
    return {
        "steps_per_epoch": spec.steps_per_epoch or epoch_samples // global_batch,
        "validation_steps": validation_steps,
        "train_samples": train_samples,
        "validation_samples": min(sizes.validation, validation_steps * at_once),
        "test_samples": sizes.test,
    }
