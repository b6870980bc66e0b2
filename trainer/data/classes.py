"""The classes of a dataset, from the labels that its collections hold. Pure."""

from trainer.data.parts import Survey
from trainer.exits import BadData

MOST_CLASSES = 10_000


def class_names(survey: Survey, *, name: str) -> tuple[str, ...]:
    """The classes in the order of their numbers: strings sorted, integers as they are. Raises `BadData`.

    An integer label is the number of its class, so that every number from 0 to the largest is a class, used or not.
    """
    if len(survey.labels) > MOST_CLASSES:
        raise BadData(f"{name}: more than {MOST_CLASSES} different labels: is this column a label?")
    if survey.label_kind == "string":
        names = tuple(sorted(survey.labels))
    else:
        numbers = sorted(map(int, survey.labels))
        if numbers and numbers[0] < 0:
            raise BadData(f"{name}: the label {numbers[0]} is out of range: number the classes from 0")
        if numbers and numbers[-1] >= 2 * len(numbers) + 10:
            raise BadData(
                f"{name}: the label {numbers[-1]} is out of range: with {len(numbers)} different labels the classes "
                f"are numbered from 0 to {len(numbers) - 1}"
            )
        names = tuple(map(str, range(numbers[-1] + 1 if numbers else 0)))
    if len(survey.labels) < 2:
        only = f"only one class ({next(iter(survey.labels))!r})" if survey.labels else "no sample at all"
        raise BadData(f"{name}: there is {only}: a network needs at least two classes to tell apart")
    return names


def check_labels(survey: Survey, classes: tuple[str, ...], *, name: str) -> None:
    """Raise `BadData` where a collection holds a label that the training data does not know."""
    unknown = sorted(survey.labels.keys() - set(classes))
    if unknown:
        raise BadData(f"{name}: the label {unknown[0]!r} is not among the classes of the training data")
