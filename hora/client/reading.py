"""Reads the service's JSON into its models. Used by all of `hora.client`."""

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hora.errors import Json, UnexpectedAnswer

Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], document: Json) -> Model:
    """`document` as a `model`. Fields that only a newer service has are in `model_extra`. Raises `UnexpectedAnswer`."""
    try:
        # Read as JSON: a time is a text there. A model may refuse a text as a Python value.
        return model.model_validate_json(json.dumps(document), extra="allow")
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise UnexpectedAnswer(
            f"This client cannot read the service's {model.__name__} ({where}: {wrong['msg']}). "
            "One of the two is older than the other."
        ) from error
