"""Admission refuses a spec by the field that cannot work at this site, and admits a spec that can work."""

from pathlib import Path
from typing import Any

import pytest

from jobs.lifecycle.admission import missing_paths, unsupported
from jobs.lifecycle.named_jobs import weights_job
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.catalog import DATASETS, MODELS
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec, spec_from
from trainer.data.location import locate
from trainer.errors import BadData

JOB = "3k9v0t2m7x1q"
SITE = SitePolicy(data_roots=["/data", "s3://bucket/sets"], models=["acme.nets:wide"])


def spec_of(dataset: dict[str, Any] | None = None, **fields: Any) -> Spec:
    return spec_from({"dataset": {"source": "digits"} | (dataset or {}), "gpus": 4} | fields)


def the_problem(spec: Spec, site: SitePolicy = SITE) -> FieldProblem:
    (problem,) = unsupported(spec, site)
    assert problem.received
    return problem


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("model", MODELS)
def test_built_in_datasets_and_models_need_no_site_settings(dataset: str, model: str) -> None:
    spec = spec_of({"source": dataset, "image_size": [96, 96]}, model=model)
    fields = [problem.field for problem in unsupported(spec, SitePolicy())]
    assert fields == (["model.name"] if MODELS[model].texts else [])


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (spec_of({"source": "chats", "text_length": 9, "vocabulary": 9}, model="bag_of_words"), []),
        (spec_of({"source": "chats"}, model="lenet5"), ["model.name"]),
        (spec_of({"source": "chats"}, model="acme.nets:wide"), ["model.name"]),
        (
            spec_of(
                {"source": "chats", "augment": [{"name": "mixup"}], "image_size": [8, 8]}, model="text_transformer"
            ),
            ["dataset.augment", "dataset.image_size"],
        ),
    ],
)
def test_what_registered_texts_cannot_have_is_refused(spec: Spec, fields: list[str]) -> None:
    problems = unsupported(spec, SITE, shape=(256,), are_texts=True)
    assert [problem.field for problem in problems] == fields
    for problem in problems:
        assert "texts" in problem.message


def test_fields_of_texts_are_refused_for_registered_data_of_another_kind() -> None:
    spec = spec_of({"source": "chips", "text": "body", "text_length": 9, "vocabulary": 9})
    problems = unsupported(spec, SITE, shape=(96, 96, 3))
    assert [problem.field for problem in problems] == ["dataset.text", "dataset.text_length", "dataset.vocabulary"]


def weighted(weights: str, name: str = "mlp") -> Spec:
    return spec_of(model={"name": name, "weights": weights})


@pytest.mark.parametrize(
    "spec",
    [
        *(spec_of({"source": source}) for source in ("chips", "s3://bucket/sets", "s3://bucket/sets/chips/")),
        spec_of({"source": "/data/chips", "format": "images", "image_size": [96, 64]}),
        spec_of({"source": "s3://bucket/sets/chips", "format": "parquet", "cache": "disk"}),
        spec_of({"source": "synthetic:samples=500,shape=8x8x1", "format": "synthetic"}),
        spec_of({"source": "chips/..2", "validation": "held-out", "sharding": "steps"}),
        spec_of({"validation": "digits", "cache": "memory"}),
        spec_of({"augment": ["rotate_90"], "format": "arrays"}),
        spec_of({"image_size": [16, 8], "augment": ["rotate_180", "flip_vertical"]}),
        spec_of(model="acme.nets:wide", min_gpus=2, placement="single_host", precision="mixed_float16"),
        *map(weighted, ("bases/mlp.weights.h5", "s3://bucket/sets/mlp.weights.h5", "/data/mlp.keras", f"job:{JOB}")),
    ],
)
def test_spec_that_can_work_is_admitted(spec: Spec) -> None:
    assert unsupported(spec, SITE) == []


WRONG_SOURCES = [
    "/etc/passwd", "/data2/chips", "/data/../etc", "chips/../../etc", "s3://bucket/other", "s3://bucket/sets/../other",
    "file:///data/chips", "simplecache::/data/chips", "synthetic:colour=red",
]  # fmt: skip
WRONG_WEIGHTS = [
    "imagenet", "model.pkl", "/etc/mlp.weights.h5", "../mlp.weights.h5", "job:", "job:../../x.weights.h5",
    f"job:{JOB.upper()}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        *(("dataset.source", spec_of({"source": source})) for source in WRONG_SOURCES),
        ("dataset.validation", spec_of({"validation": "/etc"})),
        ("dataset.validation", spec_of({"validation": "synthetic:classes=1"})),
        ("dataset.format", spec_of({"format": "parquet"})),
        ("dataset.format", spec_of({"source": "synthetic", "format": "images"})),
        ("dataset.format", spec_of({"source": "chips", "format": "synthetic"})),
        ("dataset.augment", spec_of({"image_size": [16, 8], "augment": ["flip_vertical", "rotate_90"]})),
        ("dataset.augment", spec_of({"source": "synthetic:shape=8x16x1", "augment": ["rotate_270"]})),
        ("dataset.image_size", spec_of(model="xception")),
        ("dataset.image_size", spec_of({"source": "chips", "image_size": [96, 31]}, model="resnet50")),
        ("model.name", spec_of(model="acme.nets:deep")),
        ("model.name", spec_of(model="os:system")),
        ("model.dropout", spec_of(model={"name": "acme.nets:wide", "dropout": 0.5})),
        ("model.weights", weighted("imagenet", "acme.nets:wide")),
        *(("model.weights", weighted(weights)) for weights in WRONG_WEIGHTS),
    ],
)
def test_spec_that_cannot_work_is_refused_by_its_field(field: str, spec: Spec) -> None:
    assert the_problem(spec).field == field


def test_a_refusal_lists_what_exists() -> None:
    message = the_problem(spec_of({"source": "/elsewhere"})).message
    assert (
        "neither registered (digits, fashion-mnist, diabetes, synthetic) nor below the data roots (/data, s3" in message
    )
    assert "HORA_DATA_ROOTS is not set" in the_problem(spec_of({"source": "chips"}), SitePolicy()).message
    assert the_problem(spec_of(model="resnet51")).message.endswith("packages: acme.nets:wide; did you mean resnet56?")
    only_url = SitePolicy(data_roots=["s3://bucket/sets"])
    assert the_problem(spec_of({"source": "chips"}), only_url).field == "dataset.source", "a path needs a folder"
    for root in ("s3://", "s3://me@bucket"):
        site = SitePolicy(data_roots=[root])
        assert "no user" in the_problem(spec_of({"source": "s3://me@bucket/sets"}), site).message


def test_every_wrong_field_is_named_at_once() -> None:
    dataset = {"source": "/chips", "validation": "/held-out", "format": "synthetic"}
    spec = spec_of(dataset, model={"name": "resnet51", "weights": "imagenet"})
    assert [problem.field for problem in unsupported(spec, SITE)] == [
        "dataset.format", "dataset.source", "dataset.validation", "model.name", "model.weights",
    ]  # fmt: skip


def missing(spec: Spec, *roots: Path | str) -> list[str]:
    return [problem.field for problem in missing_paths(spec, SitePolicy(data_roots=[str(root) for root in roots]))]


def test_path_missing_below_every_data_root_is_refused(tmp_path: Path) -> None:
    root_a, root_b = tmp_path / "one", tmp_path / "other"
    (root_a / "chips").mkdir(parents=True)
    (root_b / "cats").mkdir(parents=True)
    (root_b / "mlp.weights.h5").touch()
    assert missing(spec_of({"source": "chips", "validation": "cats"}), root_a, root_b) == []
    assert missing(spec_of({"source": str(root_b / "cats")}), root_a, root_b) == []
    assert missing(spec_of({"source": "chops", "validation": "dogs"}), root_a, root_b) == [
        "dataset.source", "dataset.validation",
    ]  # fmt: skip
    assert missing(spec_of({"source": "chips/inside/deeper"}), root_a) == ["dataset.source"]
    assert missing(weighted("mlp.weights.h5"), root_b) == []
    assert missing(weighted("nlp.weights.h5"), root_b) == ["model.weights"]


def test_missing_path_is_not_refused_if_the_host_cannot_see_every_root(tmp_path: Path) -> None:
    root, mount = tmp_path / "seen", tmp_path / "mount"
    (root / "chips").mkdir(parents=True)
    mount.mkdir()
    assert missing(spec_of({"source": "chops"}), root, mount) == []
    assert missing(spec_of({"source": "chops"}), root, tmp_path / "not-here") == []
    assert missing(spec_of({"source": "s3://bucket/chops"}), root, "s3://bucket") == []
    assert missing(spec_of({"source": "digits"}), root) == []
    assert missing(spec_of({"source": "c" * 1000}), root) == []  # the name is too long: the trainer refuses it


def test_weights_of_a_job_need_a_valid_job_id() -> None:
    assert weights_job(weighted(f"job:{JOB}")) == JOB
    for weights in ("none", "imagenet", "job", "job:", "job:../x", "job:a/b", "job:" + "a" * 33, "jobs:abc"):
        assert weights_job(weighted(weights)) is None


BELOW = [
    ("memory://sets/chips", "memory://sets"), ("memory://sets/chips/", "memory://sets/"), ("memory://x", "memory://"),
]  # fmt: skip
NOT_BELOW = [
    "memory://other", "memory://sets2/chips", "memory://sets/../x", "memory://sets/a%2Fb", "memory://sets//a",
    "memory://sets/a?b", "memory://sets/%2E./x", "memory://sets/./../x", "memory://sets/%2e%2e%2fx",
    "memory://sets/..%5cx", "memory://sets/a.zip::file", "zip://x::memory://sets/a.zip", "memory://a@sets/x",
    "memory://sets/..\\x", "memory:///sets/chips", "memory://sets/chips#x", "simplecache::memory://sets/chips",
    "memory://sets::file:///etc", "MEMORY://sets/chips", "file:///sets/chips", "http://127.0.0.1/sets/chips",
]  # fmt: skip


@pytest.mark.parametrize(("source", "root"), [*BELOW, *((source, "memory://sets") for source in NOT_BELOW)])
def test_trainer_and_admission_refuse_the_same_urls(source: str, root: str) -> None:
    is_refused = source in NOT_BELOW
    assert bool(unsupported(spec_of({"source": source}), SitePolicy(data_roots=[root]))) == is_refused
    with pytest.raises(BadData, match="is not below the data roots" if is_refused else "there is nothing at"):
        locate(source, [root], field="dataset.source")
