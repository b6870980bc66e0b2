"""The classes of a dataset, from the labels that its collections hold. Pure; used by `trainer.data.opening`."""

import unicodedata
from collections.abc import Sequence

from jobs.model.tasks import CLASSIFICATION, Task
from trainer.data.interfaces import Survey
from trainer.errors import BadData

MOST_CLASSES = 10_000
_NAMED = 5


def class_names(survey: Survey, *, name: str, task: Task = CLASSIFICATION) -> tuple[str, ...]:
    """The classes in the order of their numbers: strings sorted, integers as they are. Raises `BadData`.

    An integer label is the number of its class. So every number from 0 to the largest is a class, used or not.
    """
    if len(survey.labels) > MOST_CLASSES:
        raise BadData(f"{name}: more than {MOST_CLASSES} different labels: is this column a label?")
    names = _of_strings(survey, name) if survey.label_kind == "string" else _of_numbers(survey, name)
    if task == "multilabel":
        if not any(survey.labels.values()):
            raise BadData(f"{name}: no sample has a label at all")
    elif len(survey.labels) < 2:
        only = f"only one class ({next(iter(survey.labels))!r})" if survey.labels else "no sample at all"
        raise BadData(f"{name}: there is {only}: a network needs at least two classes to tell apart")
    return names


def warnings_about(classes: Sequence[str], counts: Sequence[int]) -> list[str]:
    """What a person may not know about classes that are integers: some have no sample. `counts` has those of each."""
    empty = [name for name, count in zip(classes, counts, strict=bool(counts)) if not count]
    if not empty or not any(counts):
        return []
    named = ", ".join(empty[:_NAMED]) + (", ..." if len(empty) > _NAMED else "")
    whose = f"class{'' if len(empty) == 1 else 'es'} {named} {'has' if len(empty) == 1 else 'have'} no samples"
    least = next(number for number, count in enumerate(counts) if count)
    if least == len(empty):
        rest = f"subtract {least} from the labels for {len(classes) - least} classes instead of {len(classes)}"
        return [f"Labels run from {classes[least]} to {classes[-1]}; {whose}. Classes are numbered from 0: {rest}."]
    return [f"Labels run from {classes[least]} to {classes[-1]}; {whose}. Every number from 0 on is a class."]


def check_labels(survey: Survey, classes: tuple[str, ...], *, name: str) -> None:
    """Raise `BadData` if a collection has no sample, or a label that the training data does not have."""
    if not survey.samples:
        raise BadData(f"{name}: there is no sample at all")
    unknown = sorted(survey.labels.keys() - set(classes))
    if unknown:
        raise BadData(f"{name}: the label {unknown[0]!r} is not among the classes of the training data")


def _of_strings(survey: Survey, name: str) -> tuple[str, ...]:
    for label in survey.labels:
        # Characters that text in a database cannot have, or that a person cannot see.
        if not label or any(unicodedata.category(character) in {"Cc", "Cs"} for character in label):
            raise BadData(f"{name}: the label {label!r} is empty or holds control characters: name the class otherwise")
    return tuple(sorted(survey.labels))


def _of_numbers(survey: Survey, name: str) -> tuple[str, ...]:
    numbers = sorted(map(int, survey.labels))
    if not numbers:
        return ()
    if numbers[0] < 0:
        raise BadData(f"{name}: the label {numbers[0]} is out of range: number the classes from 0")
    # Some numbers may be unused. If most of them are unused it is a mistake, such as 0 and 255 for no and yes.
    if numbers[-1] >= 2 * len(numbers) + 10:
        raise BadData(
            f"{name}: the label {numbers[-1]} is out of range: with {len(numbers)} different labels the classes "
            f"are numbered from 0 to {len(numbers) - 1}"
        )
    return tuple(map(str, range(numbers[-1] + 1)))
