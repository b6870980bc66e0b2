"""Makes the typed client from the JSON one: each of its methods is a method of `hora.service` and a model.

    class Hosts(Resource):
        get = reads(HostView, Service.host)         # get(name) -> HostView
        list = reads_list(HostView, Service.hosts)  # list() -> Items[HostView]

A method made so has the parameters and the docstring of the service's method, and returns models instead of dicts.
Used by all resources of `hora.client`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pydantic import BaseModel, PrivateAttr

from hora.client.lists import Items, Pages
from hora.client.reading import Model, read
from hora.errors import Json
from hora.service import Service

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class Resource:
    """A group of methods of the client, such as `client.hosts`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def _read(self, model: type[Model], document: Json) -> Model:
        """The document as a model. A `Refreshable` one can fetch its newer state."""
        found = read(model, document)
        if isinstance(found, Refreshable):
            found._resource = self
        return found


class Refreshable(BaseModel):
    """A model that is updated in place, by the resource that it came from."""

    _resource: Any = PrivateAttr()

    def _become(self, newer: BaseModel) -> Self:
        # All fields at once, so that a thread that looks at it never sees half of the change.
        object.__setattr__(self, "__dict__", newer.__dict__)
        object.__setattr__(self, "__pydantic_extra__", newer.__pydantic_extra__)
        return self


def reads(
    model: type[Model], call: Callable[Concatenate[Service, Parameters], Json]
) -> Callable[Concatenate[Resource, Parameters], Model]:
    """A method that returns one model."""

    def method(resource: Resource, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Model:
        return resource._read(model, call(resource._service, *args, **kwargs))

    return described(method, call, _signature(call, model))


def reads_list(
    model: type[Model], call: Callable[Concatenate[Service, Parameters], Iterable[Json]]
) -> Callable[Concatenate[Resource, Parameters], Items[Model]]:
    """A method that returns a list of models."""

    def method(resource: Resource, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Items[Model]:
        return Items(resource._read(model, item) for item in call(resource._service, *args, **kwargs))

    return described(method, call, _signature(call, Items[model]))  # type: ignore[valid-type]


def reads_pages(
    model: type[Model], call: Callable[Concatenate[Service, Parameters], Iterator[Json]]
) -> Callable[Concatenate[Resource, Parameters], Pages[Model]]:
    """A method that returns a list of models, which is fetched page by page."""

    def method(resource: Resource, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Pages[Model]:
        call(
            resource._service, *args, **kwargs
        )  # a generator: wrong arguments are refused at once, and nothing is sent
        return Pages(lambda: (resource._read(model, item) for item in call(resource._service, *args, **kwargs)))

    return described(method, call, _signature(call, Pages[model]))  # type: ignore[valid-type]


def reads_stream(
    model: type[Model], call: Callable[Concatenate[Service, Parameters], Iterator[Json]]
) -> Callable[Concatenate[Resource, Parameters], Iterator[Model]]:
    """A method that returns an iterator of models, which are fetched as they are consumed. It may have no end."""

    def method(resource: Resource, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Iterator[Model]:
        return (resource._read(model, item) for item in call(resource._service, *args, **kwargs))

    return described(method, call, _signature(call, Iterator[model]))  # type: ignore[valid-type]


def returns(
    call: Callable[Concatenate[Service, Parameters], Answer],
) -> Callable[Concatenate[Resource, Parameters], Answer]:
    """A method that returns what the service's method returns."""

    def method(resource: Resource, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        return call(resource._service, *args, **kwargs)

    return described(method, call, inspect.signature(call))


def document_with(given: Model | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> Model | Mapping[str, Any]:
    """The document to submit. A model alone stays a model: only those of its fields that were set are sent."""
    if given is None or isinstance(given, Mapping):
        return {**(given or {}), **fields}
    return {**given.model_dump(mode="json", exclude_unset=True), **fields} if fields else given


def described(
    method: Callable[Parameters, Answer], like: Callable[..., Any], signature: inspect.Signature
) -> Callable[Parameters, Answer]:
    """The method with the name and the docstring of another one, and with this signature: `help()` shows them."""
    update_wrapper(method, like)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _signature(call: Callable[..., Any], answer: Any) -> inspect.Signature:
    return inspect.signature(call).replace(return_annotation=answer)
