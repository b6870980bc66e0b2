"""Datasets: the built-in ones, and registered ones with their versions."""

from typing import Annotated, Any

from fastapi import Depends, Path, Response
from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.callers import Caller, CallerHere, router
from api.deps import (
    JSON,
    Cursor,
    IfNoneMatch,
    PageLimit,
    Services,
    ServicesHere,
    as_json,
    body_sha256,
    json_body,
    schema_body,
)
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304, tag_of, tagged_with
from api.problems import invalid
from api.routes.jobs import Key
from jobs.data import samples, uploads, versions
from jobs.data.uploads import UploadGone, UploadInUse, UploadNotFound, UploadUnfinished
from jobs.db.tables import DatasetVersion
from jobs.lifecycle.admission import path_problems
from jobs.lifecycle.submission import IdempotencyConflict
from jobs.model.catalog import DATASETS
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.people import audit
from jobs.views.base import Listed
from jobs.views.data import (
    DatasetLine,
    DatasetSamples,
    DatasetSampleView,
    DatasetVersions,
    DatasetVersionView,
    NewDataset,
)

routes = router("datasets")

_NEW: dict[str, Any] = {
    "folder": {
        "summary": "A folder of images below the data roots",
        "value": {"name": "chips", "source": "sets/chips", "image_size": [96, 96]},
    },
    "upload": {"summary": "An archive that was uploaded", "value": {"name": "chips", "upload": "5r0x8b2k9m1d"}},
}
_NO_SUCH_DATASET = problems(s404="No such dataset, or no such version of it")

DatasetPath = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="The dataset's name", examples=["chips"])
]
VersionPath = Annotated[int, Path(ge=1, lt=2**31, description="The version, from 1", examples=[3])]

SampleNumber = Annotated[int, Path(ge=0, lt=2**31, description="The number of the sample, from 0", examples=[0])]
_PNG = "image/png"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
# Generators of clients know bytes, and not images.
_IMAGE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": _BINARY, _PNG: _BINARY}}}


@routes.post(
    "/datasets",
    status_code=201,
    response_model=DatasetVersionView,
    responses=problems(
        s409="The Idempotency-Key was used with another body, or you have too many datasets",
        s413="The body is too large",
        s415="The body is not JSON",
    ),
    openapi_extra=schema_body("NewDataset", JSON, required=True, examples=_NEW),
)
def register_dataset(
    services: ServicesHere,
    caller: CallerHere,
    body: Annotated[bytes, Depends(json_body)],
    idempotency_key: Key = None,
) -> Response:
    """Register data as the next version of a dataset. Jobs can train on it after a worker has validated it."""
    new = _new_dataset(body)
    request_sha256 = body_sha256("dataset", body)
    with services.sessions.begin() as session:
        row = _registered_before(session, caller, idempotency_key, request_sha256)
        is_replay = row is not None
        if row is None:
            _check(session, services, caller, new)
            row = versions.register(session, new, owner=caller.user, key=idempotency_key, request_sha256=request_sha256)
            subject = f"{row.name}@{row.version}"
            audit.record(session, caller.actor, "dataset.registered", subject, source=new.source, upload=new.upload)
        view = DatasetVersionView.model_validate(row)
    headers = {"Location": f"/v1/datasets/{view.name}/versions/{view.version}", **_tagged(view)}
    return as_json(view, 201, headers | ({"Idempotency-Replayed": "true"} if is_replay else {}))


def _new_dataset(body: bytes) -> NewDataset:
    try:
        new = NewDataset.model_validate_json(body)
    except ValidationError as error:
        raise InvalidSpec(field_problems(error, NewDataset)) from None
    if new.name in DATASETS:
        raise invalid([FieldProblem("name", "this is the name of a built-in dataset; choose another", new.name)])
    return new


def _registered_before(session: Session, caller: Caller, key: str | None, sha256: str) -> DatasetVersion | None:
    row = versions.registered_with(session, caller.user, key) if key is not None else None
    if row is not None and row.request_sha256 != sha256:
        raise IdempotencyConflict(key)
    return row


def _check(session: Session, services: Services, caller: Caller, new: NewDataset) -> None:
    """Refuse data that no worker could read. Raises `InvalidSpec`, `Forbidden`."""
    places = {"source": new.source, "validation": new.validation if isinstance(new.validation, str) else None}
    problems_found = path_problems(
        {field: place for field, place in places.items() if place is not None}, services.site
    )
    if new.upload is not None:
        try:
            caller.require_owner(f"upload {new.upload}", uploads.for_dataset(session, new.upload).owner)
        except UploadNotFound:
            problems_found.append(FieldProblem("upload", "there is no such upload", new.upload))
        except (UploadGone, UploadInUse, UploadUnfinished) as error:
            problems_found.append(FieldProblem("upload", str(error), new.upload))
    if problems_found:
        raise InvalidSpec(problems_found)


@routes.get("/datasets", response_model=Listed[DatasetLine], responses=UNCHANGED)
def list_datasets(
    services: ServicesHere, limit: PageLimit = 100, cursor: Cursor = None, if_none_match: IfNoneMatch = None
) -> Response:
    """List the datasets that a spec can name, sorted by name: built-in ones, and the newest version of others.

    With `If-None-Match` an unchanged page gets 304.
    """
    with services.sessions() as session:
        page = versions.list_datasets(session, limit=limit, cursor=cursor)
    return answer_or_304(Listed[DatasetLine](items=page.items, next_cursor=page.next_cursor), if_none_match)


@routes.get("/datasets/{dataset}", response_model=DatasetVersions, responses=UNCHANGED | _NO_SUCH_DATASET)
def get_dataset(
    dataset: DatasetPath,
    services: ServicesHere,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get a dataset with its versions, newest first. A built-in dataset has no versions."""
    if dataset in DATASETS:
        builtin = DATASETS[dataset]
        view = DatasetVersions(
            name=builtin.name, description=builtin.description, builtin=True, newest_ready=None, items=[]
        )
        return answer_or_304(view, if_none_match)
    with services.sessions() as session:
        page, newest_ready = versions.list_versions(session, dataset, limit=limit, cursor=cursor)
    view = DatasetVersions(
        name=dataset,
        description=page.items[0].description if page.items else "",
        builtin=False,
        newest_ready=newest_ready,
        items=[DatasetVersionView.model_validate(row) for row in page.items],
        next_cursor=page.next_cursor,
    )
    return answer_or_304(view, if_none_match)


@routes.get(
    "/datasets/{dataset}/versions/{version}",
    response_model=DatasetVersionView,
    responses=UNCHANGED | _NO_SUCH_DATASET,
)
def get_dataset_version(
    dataset: DatasetPath, version: VersionPath, services: ServicesHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Get a version of a dataset. With `If-None-Match` an unchanged version gets 304."""
    with services.sessions() as session:
        view = DatasetVersionView.model_validate(versions.get_version(session, dataset, version))
    return answer_or_304(view, if_none_match)


@routes.get(
    "/datasets/{dataset}/versions/{version}/samples",
    response_model=DatasetSamples,
    responses=UNCHANGED | _NO_SUCH_DATASET,
)
def list_dataset_samples(
    dataset: DatasetPath, version: VersionPath, services: ServicesHere, if_none_match: IfNoneMatch = None
) -> Response:
    """List a few images of a version. Tables, texts, and versions that an earlier Hora validated have none."""
    with services.sessions() as session:
        row = versions.get_version(session, dataset, version)
        labels = samples.labels_of(session, row.id)
    path = f"/v1/datasets/{dataset}/versions/{version}/samples"
    items = [DatasetSampleView(number=number, label=label, path=f"{path}/{number}") for number, label in labels]
    return answer_or_304(DatasetSamples(items=items), if_none_match)


@routes.get(
    "/datasets/{dataset}/versions/{version}/samples/{number}",
    response_class=Response,
    responses=problems(s404="No such dataset, version or sample") | _IMAGE,
)
def get_dataset_sample(
    dataset: DatasetPath, version: VersionPath, number: SampleNumber, services: ServicesHere
) -> Response:
    """Get an image of a version, as a PNG of at most 64 x 64 pixels."""
    with services.sessions() as session:
        png = samples.png_of(session, versions.get_version(session, dataset, version).id, number)
    return Response(png, media_type=_PNG, headers={"Cache-Control": "private, max-age=3600"})


@routes.delete(
    "/datasets/{dataset}/versions/{version}",
    status_code=204,
    responses=_NO_SUCH_DATASET | problems(s409="Jobs that have not ended use it"),
)
def remove_dataset_version(
    dataset: DatasetPath, version: VersionPath, services: ServicesHere, caller: CallerHere
) -> None:
    """Remove a version of a dataset: no new job can train on it. Only for the user who registered it, and admins.

    Files of an upload are removed later. Files below the data roots stay.
    """
    with services.sessions.begin() as session:
        row = versions.get_version(session, dataset, version, to_change=True)
        caller.require_owner(f"dataset {dataset}@{version}", row.created_by)
        versions.remove(session, row)
        audit.record(session, caller.actor, "dataset.removed", f"{dataset}@{version}")


def _tagged(view: DatasetVersionView) -> dict[str, str]:
    return tagged_with(tag_of(view.model_dump_json()))
