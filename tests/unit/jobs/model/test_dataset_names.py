"""Which registered dataset a source names, and how a version's options combine with the spec's own."""

from typing import Any

import pytest

from jobs.data.resolving import registered_sizes, with_options, without_options
from jobs.db.tables import DatasetVersion
from jobs.model.dataset_names import Reference, is_versioned, reference_of
from jobs.model.plan import DatasetSizes
from jobs.model.spec import Spec, spec_from

OPTIONS: dict[str, Any] = {"format": "auto", "label": "kind", "image_size": [96, 96], "validation": 0.2}
FACTS = {
    "format": "images", "shape": [96, 96, 3], "classes": ["a", "b"], "samples": 101, "train": 81, "validation": 20,
    "test": 7, "split": 0.2,
}  # fmt: skip


def a_version(options: dict[str, Any] = OPTIONS, **facts: Any) -> DatasetVersion:
    return DatasetVersion(name="chips", version=3, options=options, status="ready", facts=FACTS | facts)


def a_spec(**dataset: Any) -> Spec:
    return spec_from({"dataset": {"source": "chips", **dataset}})


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("chips", Reference("chips", None)), ("chips@3", Reference("chips", 3)),
        ("a.b_c-d@12", Reference("a.b_c-d", 12)),
        ("digits", None), ("digits@1", None), ("synthetic", None), ("synthetic:samples=50", None), ("Chips", None),
        ("sets/chips", None), ("./chips", None), ("/data/chips@3", None), ("chips@0", None), ("chips@03", None),
        ("chips@", None), ("chips@1@2", None), ("chips@-1", None), ("s3://bucket/chips@3", None), ("x" * 65, None),
        ("chips@" + "9" * 10, None), ("ch\u0131ps", None), ("chips\n", None),
    ],
)  # fmt: skip
def test_source_is_parsed_as_a_dataset_reference_or_none(source: str, reference: Reference | None) -> None:
    assert reference_of(source) == reference


def test_only_a_source_of_the_form_name_at_number_is_versioned() -> None:
    for source in ("chips@3", "Chips@3", "digits@1", "chips@0", "@1"):
        assert is_versioned(source), source
    for source in ("chips", "a/b@3", "./b@3", "s3://b@3", "b@x"):
        assert not is_versioned(source), source


def test_version_options_fill_fields_that_the_spec_leaves_unset() -> None:
    filled = with_options(a_spec(validation=0.1, cache="memory"), a_version()).dataset
    assert (filled.source, filled.label, filled.image_size) == ("chips@3", "kind", (96, 96))
    assert (filled.validation, filled.cache) == (0.1, "memory")  # the spec sets both, the share to its default


def test_clone_on_other_data_drops_the_options_of_its_old_dataset() -> None:
    stored = with_options(a_spec(label="mine"), a_version()).model_dump(mode="json")
    own = without_options(stored, {"options": OPTIONS})["dataset"]
    assert own["label"] == "mine"
    assert not own.keys() & {"image_size", "validation", "format"}
    assert without_options(stored, None) == stored


@pytest.mark.parametrize(
    ("dataset", "version", "sizes"),
    [
        ({}, a_version(), (81, 20, 7)),
        ({"validation": 0.5}, a_version(), (51, 50, 7)),
        ({"validation": 0.5}, a_version(format="parquet"), None),
        ({"validation": 0.5}, a_version(split=None), (81, 20, 7)),
        ({"validation": "elsewhere"}, a_version(), None),
        ({}, a_version(OPTIONS | {"validation": "apart"}, split=None), (81, 20, 7)),
        ({"validation": 0.5}, a_version(OPTIONS | {"validation": "apart"}, split=None), (51, 50, 7)),
    ],
    ids=["as registered", "another share", "another share of Parquet", "its own validation part", "another source",
         "a registered source", "a share instead of it"],
)  # fmt: skip
def test_registered_sizes_follow_the_validation_setting(
    dataset: dict[str, Any], version: DatasetVersion, sizes: tuple[int, int, int] | None
) -> None:
    spec = with_options(a_spec(**dataset), version)
    expected = None if sizes is None else DatasetSizes(train=sizes[0], validation=sizes[1], test=sizes[2])
    assert registered_sizes(spec, version) == expected
