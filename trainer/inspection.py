"""Opens data as a training would, and returns its facts, fingerprint and some samples. Run by `worker.contained`."""

import errno
import json
import sys
from pathlib import Path
from typing import Any

from jobs.model.spec import DatasetSpec
from jobs.model.tasks import AnyTask
from trainer.data.classes import warnings_about
from trainer.data.fingerprint import fingerprint_of
from trainer.data.formats import files_of
from trainer.data.interfaces import Host, merged
from trainer.data.opening import Dataset, Surveys, open_source
from trainer.errors import BadData
from trainer.samples import samples_of

_MOST_NAMED = 5


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """`{"facts", "fingerprint", "samples"}` of the data that `dataset` names, or `{"refused"}` with why not."""
    try:
        return _inspect(*_asked_for(request))
    except BadData as error:
        return {"refused": str(error), "out_of_memory": _is_lack_of_memory(error.__cause__)}


def _asked_for(request: dict[str, Any]) -> tuple[DatasetSpec, Host, AnyTask]:
    """The dataset of a request, this host, and the task."""
    options = dict(request["dataset"])
    task: AnyTask = options.pop("task", "auto")
    spec = DatasetSpec.model_validate_json(json.dumps(options))
    host = Host(
        data_roots=request["data_roots"],
        cache_dir=Path(request["scratch_dir"]),
        scratch_dir=Path(request["scratch_dir"]),
        threads=request["threads"],
    )
    return spec, host, task


def _is_lack_of_memory(error: BaseException | None) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _inspect(spec: DatasetSpec, host: Host, task: AnyTask) -> dict[str, Any]:
    source = open_source(spec, seed=0, host=host, task=task)
    surveys = source.survey(rank=0, ranks=1)
    dataset = source.to_dataset([surveys])
    # Its bytes come last: data that cannot be trained on need not be read whole.
    places = [files_of(spec.source, host, expected_format=spec.format, field="source")]
    if isinstance(spec.validation, str):
        places.append(files_of(spec.validation, host, expected_format="auto", field="validation"))
    content = fingerprint_of([place for place in places if place is not None], threads=host.threads)
    lies_apart = "validation" in source.collections
    facts = _facts(dataset, surveys) | {"split": None if lies_apart else spec.validation}
    return {
        "facts": facts | {"files": content.files, "bytes": content.bytes},
        "fingerprint": content.sha256,
        "samples": _samples(dataset),
    }


def _samples(dataset: Dataset) -> list[dict[str, Any]]:
    """Some images to look at. Without them the data is as good."""
    try:
        return samples_of(dataset)
    except Exception as error:  # whatever reading a part of the data raises
        print(f"no samples to look at: {error}", file=sys.stderr)
        return []


def _facts(dataset: Dataset, surveys: Surveys) -> dict[str, Any]:
    train, facts = merged([surveys["train"]]), dataset.facts
    return {
        "format": facts.format,
        "shape": list(facts.shape),
        **({"words": len(facts.vocabulary)} if facts.are_texts else {}),
        "classes": list(facts.classes),
        "task": facts.task,
        "targets": 0 if facts.targets is None else facts.outputs,
        "class_counts": {name: train.labels.get(name, 0) for name in facts.classes},
        "samples": train.samples,
        "train": facts.sizes.train,
        "validation": facts.sizes.validation,
        "test": facts.sizes.test,
        "damaged": len(facts.damaged),
        "damaged_files": list(facts.damaged)[:_MOST_NAMED],
        "warnings": warnings_about(facts.classes, facts.counts),
    }
