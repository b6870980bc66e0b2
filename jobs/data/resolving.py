"""Turns a submitted spec into the stored one: `chips` becomes `chips@3`, with the options of that version.

Called by the api before it stores a job. Fields of `dataset` that the spec sets stay. The others get the registered
values.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from jobs.data import versions
from jobs.db.engine import Sessions
from jobs.db.tables import DatasetVersion
from jobs.lifecycle.dataset_refs import Ref
from jobs.model.catalog import DATASETS, dataset_of, sizes_of
from jobs.model.dataset_names import Reference, is_versioned, reference_of
from jobs.model.plan import DatasetSizes, split_sizes
from jobs.model.problems import FieldProblem
from jobs.model.spec import DatasetSpec, Spec, unknown_class
from jobs.model.synthetic import WrongSynthetic
from jobs.model.task_rules import unfit_fields
from jobs.model.tasks import CLASSIFICATION, DEFAULT_METRICS, Task, epoch_metrics
from jobs.suggestions import meant

_FIELD = "dataset.source"
_MOST_NAMED = 20  # registered datasets in a message
_MOST_COMPARED = 1000  # with a misspelt name


@dataclass(frozen=True)
class Resolved:
    """A spec with the dataset version that it trains on. If there are `problems`, the spec is unchanged."""

    spec: Spec
    sizes: DatasetSizes | None
    shape: tuple[int, ...] | None = None  # of a sample, if the registered dataset has one
    are_texts: bool = False
    problems: list[FieldProblem] = field(default_factory=list)
    warnings: Sequence[str] = ()  # about the registered data


class Registry:
    """The registered datasets; each name is read from the database once."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._versions_by_name: dict[str, Sequence[DatasetVersion]] = {}

    def resolve(self, spec: Spec) -> Resolved:
        """The spec with the version and options of the registered dataset that it names. Other specs do not change."""
        if spec.dataset is None:
            return Resolved(spec, None)
        reference = reference_of(spec.dataset.source)
        if reference is None and is_versioned(spec.dataset.source):
            return self._refused(spec, "only registered datasets have versions (NAME@N)")
        rows = self._versions(reference.name) if reference is not None else []
        if reference is None or (not rows and reference.version is None):
            return _on_built_in(spec)
        if not rows:
            return self._refused(spec, f"no dataset {reference.name} is registered{self.others_text(reference.name)}")
        row = _usable_version(reference, rows)
        return self._refused(spec, row) if isinstance(row, str) else _on_version(spec, row)

    def others_text(self, misspelt: str) -> str:
        """The end of a message about a name that does not exist: the registered names, and what was probably meant."""
        with self._sessions() as session:
            names = versions.names(session, most=_MOST_COMPARED)
        named = [*names[:_MOST_NAMED], *(["..."] if len(names) > _MOST_NAMED else [])]
        registered = f"; registered: {', '.join(named)}" if names else ""
        return registered + meant(misspelt, [*DATASETS, *names])

    def _versions(self, name: str) -> Sequence[DatasetVersion]:
        if name not in self._versions_by_name:
            with self._sessions() as session:
                self._versions_by_name[name] = versions.versions_of(session, name)
        return self._versions_by_name[name]

    def _refused(self, spec: Spec, message: str) -> Resolved:
        return Resolved(spec, None, problems=[FieldProblem(_FIELD, message, spec.own_dataset.source)])


def _on_built_in(spec: Spec) -> Resolved:
    """The spec, with the task of a built-in dataset. Paths and misspelt names have none."""
    try:
        built_in = dataset_of(spec.own_dataset.source)
    except WrongSynthetic:
        built_in = None
    if built_in is None or spec.is_script:
        return Resolved(spec, sizes_of(spec))
    spec, problems = for_task(spec, built_in.task, built_in.classes, spec.own_dataset.source)
    return Resolved(spec, None if problems else sizes_of(spec), problems=problems)


def _on_version(spec: Spec, row: DatasetVersion) -> Resolved:
    facts = row.facts or {}
    problems: list[FieldProblem] = []
    if facts and not spec.is_script:
        task = facts.get("task", CLASSIFICATION)
        spec, problems = for_task(spec, task, len(facts["classes"]), f"{row.name}@{row.version}")
    if problems:
        return Resolved(spec, None, problems=problems)
    unknown = unknown_class(spec.class_weights, facts["classes"]) if facts else None
    if unknown is not None:
        name, message = unknown
        return Resolved(spec, None, problems=[FieldProblem(f"class_weights.{name}", message)])
    spec = with_options(spec, row)
    shape = tuple(facts["shape"]) if facts else None
    warnings = [] if spec.is_script else facts.get("warnings", [])  # a script reads the labels in its own way
    sizes = registered_sizes(spec, row)
    return Resolved(spec, sizes, shape, are_texts=facts.get("words") is not None, warnings=warnings)


def for_task(spec: Spec, task: Task, classes: int, name: str) -> tuple[Spec, list[FieldProblem]]:
    """The spec for data whose task is known, and what in it does not go with that.

    A classification stays `auto`, as it always was. Of another task the default of early stopping is made explicit.
    """
    if spec.task not in {"auto", task}:
        message = f"{name} is for {task}; data can be registered for another task"
        return spec, [FieldProblem("task", message, spec.task)]
    problems = unfit_fields(spec, task, epoch_metrics(task, classes))
    if problems or task == CLASSIFICATION:
        return spec, problems
    changes: dict[str, Any] = {"task": task}
    stopping = spec.early_stopping
    if stopping is not None and stopping.monitor == DEFAULT_METRICS[CLASSIFICATION]:
        changes["early_stopping"] = stopping.model_copy(update={"monitor": DEFAULT_METRICS[task]})
    return spec.model_copy(update=changes), []


def _usable_version(reference: Reference, rows: Sequence[DatasetVersion]) -> DatasetVersion | str:
    """The version that the reference names, or why no job can train on it."""
    if reference.version is None:
        ready = [row for row in rows if row.status == "ready"]
        states = "; ".join(_state_text(row) for row in rows[:3])
        return ready[0] if ready else f"{reference.name} has no version that is ready: {states}"
    row = next((row for row in rows if row.version == reference.version), None)
    if row is None:
        there_are = ", ".join(f"{row.name}@{row.version}" for row in reversed(rows[:20]))
        return f"there is no {reference}; there are: {there_are}"
    return row if row.status == "ready" else _state_text(row)


def _state_text(row: DatasetVersion) -> str:
    state = "still being validated" if row.status == "validating" else f"invalid: {row.error}"
    return f"{row.name}@{row.version} is {state}"


def sizes_in(session: Session, spec: Spec) -> DatasetSizes | None:
    """The sizes of a stored spec's data. None if they are unknown until it is opened."""
    source = "" if spec.dataset is None else spec.dataset.source
    reference = reference_of(source) if is_versioned(source) else None
    if reference is None:
        return sizes_of(spec)
    row = next((row for row in versions.versions_of(session, reference.name) if row.version == reference.version), None)
    return registered_sizes(spec, row) if row is not None else None


def with_options(spec: Spec, row: DatasetVersion) -> Spec:
    """The spec with the version's options in the fields that it does not set itself."""
    own = spec.own_dataset.model_fields_set
    options = {name: value for name, value in row.options.items() if name not in own and name != "task"}
    document = {**spec.own_dataset.model_dump(mode="json"), **options, "source": f"{row.name}@{row.version}"}
    return spec.model_copy(update={"dataset": DatasetSpec.model_validate_json(json.dumps(document))})


def without_options(document: dict[str, Any], ref: Ref | None) -> dict[str, Any]:
    """A stored spec without the options of its dataset, so that a clone on other data gets the options of that data."""
    if ref is None:
        return document
    options = ref["options"]
    own = {name: value for name, value in document["dataset"].items() if options.get(name, _UNSET) != value}
    return {**document, "dataset": own}


_UNSET = object()


def registered_sizes(spec: Spec, row: DatasetVersion) -> DatasetSizes | None:
    """The sizes of the parts of a version. None if only the ranks can find them out.

    A share of Parquet is taken within every row group. So the sizes are known only for the registered share.
    """
    facts, validation, registered = row.facts, spec.own_dataset.validation, row.options["validation"]
    if facts is None or spec.own_dataset.balance:
        return None
    as_registered = DatasetSizes(train=facts["train"], validation=facts["validation"], test=facts["test"])
    if isinstance(validation, str):
        return as_registered if validation == registered else None
    lies_apart = facts["split"] is None and not isinstance(registered, str)
    if lies_apart or validation == facts["split"]:
        return as_registered
    if facts["format"] == "parquet":
        return None
    train, held_out = split_sizes(facts["samples"], validation)
    return DatasetSizes(train=train, validation=held_out, test=facts["test"])


def with_source(spec: Spec, source: str) -> Spec:
    """The spec for the ranks: its source is the path or URL of the version."""
    return spec.model_copy(update={"dataset": spec.own_dataset.model_copy(update={"source": source})})
