"""What a job is called whose spec has no name: after what it is, as in `digits-lenet5-2x64`. Pure."""

from posixpath import basename, splitext

from jobs.model.dataset_names import reference_of
from jobs.model.plan import Plan
from jobs.model.printable import MOST_IN_NAME, cleaned
from jobs.model.spec import DEFAULT_NAME, Spec

_FOLDERS_OF_PARTS = ("train", "data", "images")  # the folder above says more
_INTERPRETERS = ("python", "python3", "torchrun", "bash", "sh", "env")


def name_of(spec: Spec, plan: Plan) -> str:
    """The name that the spec gives; without one its data, its network, and the GPUs with the batch of each.

    A probe begins with `probe`. A script is called after its file or module, and the number of its GPUs.
    """
    if spec.name != DEFAULT_NAME:
        return spec.name
    if spec.is_script:
        return _joined(_name_of_program(spec.command or ()), f"x{plan.gpus}")
    network = spec.own_model.name.rpartition(":")[2]
    kind = "probe" if spec.probe else ""
    return _joined(kind, _name_of_data(spec.own_dataset.source), network, f"{plan.gpus}x{plan.per_gpu_batch}")


def _joined(*parts: str) -> str:
    *words, numbers = filter(None, parts)
    return cleaned("-".join(words), MOST_IN_NAME - len(numbers) - 1) + f"-{numbers}"


def _name_of_data(source: str) -> str:
    """The registered name, the kind of generated data, or the last part of a path."""
    reference = reference_of(source)
    if reference is not None:
        return reference.name
    kind, colon, _ = source.partition(":")
    if colon and not source.startswith(f"{kind}://"):
        return kind
    names = [part for part in source.split("/") if part.strip(".") and part not in _FOLDERS_OF_PARTS]
    return splitext(names[-1])[0] if names else "data"


def _name_of_program(command: tuple[str, ...] | list[str]) -> str:
    """The file or the module that a command runs, without its folders and its ending."""
    for before, word in zip(("", *command), command, strict=False):
        if before == "-m":
            return word.rpartition(".")[2]
        if before == "-c":
            break
        if not word.startswith("-") and "=" not in word and basename(word) not in _INTERPRETERS:
            return splitext(basename(word))[0] or "script"
    return "script"
