"""Whether a spec can run here. Called by the api before it stores anything.

Two checks, the cheaper first: `unsupported` reads only the spec, `missing_paths` looks at this host's disk. Each
returns every wrong field. `jobs.lifecycle.named_jobs` checks the jobs that the spec names.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.lifecycle.named_jobs import weights_job
from jobs.lifecycle.script_admission import script_problems
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.augment_fields import QUARTER_TURNS, name_of
from jobs.model.catalog import DATASETS, MODELS
from jobs.model.dataset_fields import NO_BALANCE, NO_ENLARGING, TEXT_FIELDS, DatasetSpec
from jobs.model.dataset_names import is_versioned
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec
from jobs.model.synthetic import SYNTHETIC, WrongSynthetic, is_synthetic, synthetic_of
from jobs.runtime.data_roots import is_plain_url
from jobs.suggestions import meant


@dataclass(frozen=True)
class _NamedPath:
    """A path or a URL in a field of a spec, and the message for when there is no such file."""

    field: str
    source: str
    missing_message: str


def unsupported(
    spec: Spec, site: SitePolicy, *, shape: tuple[int, ...] | None = None, are_texts: bool = False
) -> list[FieldProblem]:
    """Every field of the spec that cannot work on this stack, with what is allowed.

    `shape` is that of the samples, and `are_texts` says whether they are texts, if the dataset is registered.
    """
    outside = [problem for place in _named_paths(spec, site) for problem in _outside_roots(place, site)]
    if spec.is_script:
        return [*script_problems(spec, site), *outside]
    source = spec.own_dataset.source
    is_known = shape is not None or source in DATASETS or is_synthetic(source)
    of_kind = _kind_problems(spec, are_texts=are_texts) if is_known else ()
    return [*_dataset_problems(spec, shape), *outside, *_model_problems(spec, site), *of_kind]


def missing_paths(spec: Spec, site: SitePolicy) -> list[FieldProblem]:
    """The spec's paths that do not exist below the data roots, as far as this host can see.

    A host that does not see every data root, such as an api in a container, reports nothing. The trainer then reports
    it, with the end reason bad_data. An empty folder counts as not seen, because something should be mounted there.
    """
    return _not_on_disk(list(_named_paths(spec, site)), site)


def _not_on_disk(places: Sequence[_NamedPath], site: SitePolicy) -> list[FieldProblem]:
    roots = [Path(root) for root in site.folders]
    if not roots or not all(map(_has_something, roots)):
        return []
    return [
        FieldProblem(place.field, place.missing_message, place.source)
        for place in places
        if "://" not in place.source and not any(_may_exist(root / place.source) for root in roots)
    ]


def path_problems(places: Mapping[str, str], site: SitePolicy) -> list[FieldProblem]:
    """The fields whose paths or URLs are outside the data roots, or do not exist on this disk."""
    named_paths = [_NamedPath(field, source, _MISPLACED.format(site.roots_text)) for field, source in places.items()]
    not_paths = [
        FieldProblem(place.field, "this is a name and not a path: use it directly in a spec", place.source)
        for place in named_paths
        if not _is_path_or_url(place.source)
    ]
    outside = [problem for place in named_paths for problem in _outside_roots(place, site)]
    return not_paths + outside or _not_on_disk(named_paths, site)


_MISPLACED = "there is nothing below the data roots ({})"


def _dataset_problems(spec: Spec, shape: tuple[int, ...] | None) -> Iterator[FieldProblem]:
    dataset, built_in = spec.own_dataset, DATASETS.get(spec.own_dataset.source)
    if is_synthetic(dataset.source):
        built_in = DATASETS[SYNTHETIC]
        wrong = _synthetic_problem("dataset.source", dataset.source, dataset.image_size)
        if wrong is not None:
            yield wrong
        else:
            shape = synthetic_of(dataset.source).shape
    elif built_in is not None:
        shape = built_in.shape
    if built_in is not None and dataset.format not in ("auto", built_in.format):
        message = f"{built_in.name} has the format {built_in.format!r}; leave this at 'auto'"
        yield FieldProblem("dataset.format", message, dataset.format)
    if dataset.balance and dataset.format == "parquet":
        yield FieldProblem("dataset.balance", NO_BALANCE, "true")
    if dataset.augment_mode == "enlarge" and dataset.format == "parquet" and dataset.cache != "memory":
        yield FieldProblem("dataset.augment_mode", NO_ENLARGING, dataset.augment_mode)
    if built_in is None and dataset.format == "synthetic":
        message = "synthetic data has no path: set dataset.source to 'synthetic'"
        yield FieldProblem("dataset.format", message, dataset.format)
    if isinstance(dataset.validation, str) and is_synthetic(dataset.validation):
        wrong = _synthetic_problem("dataset.validation", dataset.validation, dataset.image_size)
        if wrong is not None:
            yield wrong
    yield from _size_problems(spec, shape)


def _synthetic_problem(field: str, source: str, image_size: tuple[int, int] | None) -> FieldProblem | None:
    """Why there is no such generated data, also in the size to which it is resized."""
    received = source
    try:
        data = synthetic_of(source)
        if image_size is not None:
            field, received = "dataset.image_size", "{}x{}".format(*image_size)
            data.resized(image_size)
    except WrongSynthetic as error:
        return FieldProblem(field, str(error), received)
    return None


def _size_problems(spec: Spec, shape: tuple[int, ...] | None) -> Iterator[FieldProblem]:
    """Problems with images of this size, if the size is known."""
    dataset, network = spec.own_dataset, spec.own_model
    size = dataset.image_size or shape
    if size is None or len(size) < 2:  # rows of a table have no height and width
        return
    size_text = f"{size[0]}x{size[1]}"
    model = MODELS.get(network.name)
    least = model.least_size if model is not None else 1
    if min(size) < least:
        message = f"{network.name} takes images of {least}x{least} and larger: set it to at least [{least}, {least}]"
        yield FieldProblem("dataset.image_size", message, size_text)
    names = [name_of(item) for item in dataset.augment]
    turns = [name for name in names if name in QUARTER_TURNS]
    if turns and size[0] != size[1]:
        message = f"{turns[0]} needs square images, but these are {size_text}: set dataset.image_size to a square"
        yield FieldProblem("dataset.augment", message, ", ".join(names))


def _kind_problems(spec: Spec, *, are_texts: bool) -> Iterator[FieldProblem]:
    """Problems with what is for texts alone, or for all other data, if it is known which the data is."""
    name, dataset = spec.own_model.name, spec.own_dataset
    fitting = [model.name for model in MODELS.values() if model.texts == are_texts]
    if name not in fitting and (name in MODELS or are_texts):
        takes = "no texts, and the samples are texts" if are_texts else "texts, and the samples are none"
        yield FieldProblem("model.name", f"takes {takes}: use {', '.join(fitting)}", name)
    if are_texts and dataset.augment:
        names = ", ".join(map(name_of, dataset.augment))
        yield FieldProblem("dataset.augment", "changes images or numbers, and the samples are texts", names)
    if are_texts and dataset.image_size is not None:
        size = "{}x{}".format(*dataset.image_size)
        yield FieldProblem("dataset.image_size", "the samples are texts: leave it out", size)
    for field in () if are_texts else TEXT_FIELDS:
        if (value := getattr(dataset, field)) != DatasetSpec.model_fields[field].default:
            yield FieldProblem(f"dataset.{field}", "the samples are no texts: leave it out", str(value))


def _model_problems(spec: Spec, site: SitePolicy) -> Iterator[FieldProblem]:
    network = spec.own_model
    name, weights = network.name, network.weights
    if name not in MODELS and name not in site.models:
        more = ", ".join(site.models) or "none; see HORA_MODELS"
        message = f"no such model; there are: {', '.join(MODELS)}; and from installed packages: {more}"
        message += meant(name, [*MODELS, *site.models])
        yield FieldProblem("model.name", message, name)
    if ":" in name and network.dropout:
        message = f"{name} places its own dropout; leave it at 0"
        yield FieldProblem("model.dropout", message, f"{network.dropout:g}")
    if weights == "imagenet":
        pretrained = [model.name for model in MODELS.values() if model.imagenet]
        if name not in pretrained:
            message = f"ImageNet weights exist only for: {', '.join(pretrained)}"
            yield FieldProblem("model.weights", message, f"{weights} with {name}")
    elif weights.startswith("job:"):
        if weights_job(spec) is None:
            yield FieldProblem("model.weights", "write it as job:ID, with the id of a job", weights)
    elif weights != "none" and not network.weights_are_a_file:
        message = "write none, imagenet, job:ID, or a file below the data roots that ends in .h5, .hdf5 or .keras"
        message += meant(weights, ["none", "imagenet"])
        yield FieldProblem("model.weights", message, weights)


def _named_paths(spec: Spec, site: SitePolicy) -> Iterator[_NamedPath]:
    registered = f"neither registered ({', '.join(DATASETS)}) nor"
    dataset = f"no such dataset: {registered} below the data roots ({site.roots_text})"
    if spec.dataset is not None and _is_path_or_url(spec.dataset.source):
        yield _NamedPath("dataset.source", spec.dataset.source, dataset)
    validation = None if spec.dataset is None else spec.dataset.validation
    if isinstance(validation, str) and _is_path_or_url(validation):
        yield _NamedPath("dataset.validation", validation, dataset)
    if spec.model is not None and spec.model.weights_are_a_file:
        file = f"no such file below the data roots ({site.roots_text})"
        yield _NamedPath("model.weights", spec.model.weights, file)


def _is_path_or_url(source: str) -> bool:
    return source not in DATASETS and not is_synthetic(source) and not is_versioned(source)


def _outside_roots(place: _NamedPath, site: SitePolicy) -> Iterator[FieldProblem]:
    """The check reads only the text. Where the data is, the trainer also follows links (`trainer.data.location`)."""
    source = place.source
    roots = [root for root in site.data_roots if ("://" in root) == ("://" in source)]
    if _is_ambiguous(source):
        message = "write it plainly: no '..' and no '::'; in a URL no escapes, no query, no user, no empty part"
        yield FieldProblem(place.field, message, source)
    elif not roots or (_is_absolute(source) and not any(_is_below(source, root) for root in roots)):
        yield FieldProblem(place.field, place.missing_message, source)


def _is_ambiguous(source: str) -> bool:
    """Whether a server or a driver could read it as another place."""
    if "://" in source:
        return not is_plain_url(source)
    return ".." in source.split("/") or "::" in source


def _is_absolute(source: str) -> bool:
    return source.startswith("/") or "://" in source


def _is_below(source: str, root: str) -> bool:
    above = root.rstrip("/").split("/")
    return source.split("/")[: len(above)] == above


def _has_something(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _may_exist(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # this process may not read it
        return True
    return True
