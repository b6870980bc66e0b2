"""From the service's JSON to its models. Used by all of `hora.client`."""

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hora.errors import Json, UnexpectedAnswer

Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], document: Json) -> Model:
    """`document` as a `model`. Fields that only a newer service has are in `model_extra`. Raises `UnexpectedAnswer`."""
    try:
        # Read as JSON, in which a time is a text, whatever the model says of Python values.
        return model.model_validate_json(json.dumps(document), extra="allow")
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise UnexpectedAnswer(
            f"The service's {model.__name__} is not one that this client knows ({where}: {wrong['msg']}). "
            "One of the two is older than the other."
        ) from error
