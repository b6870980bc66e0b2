"""From the service's JSON to its models, and the things that are asked anew. Used by all of `hora.client`."""

import json
from typing import Self, TypeVar

from pydantic import BaseModel, ValidationError

from hora.errors import Json, UnexpectedAnswer

Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], document: Json) -> Model:
    """`document` as a `model`. What a newer service has more is kept, in `model_extra`. Raises `UnexpectedAnswer`."""
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


class Renewed(BaseModel):
    """A model that is asked anew, and then is in place what it has become."""

    def _become(self, fresh: BaseModel) -> Self:
        # All fields at once, so that a thread that looks at it never sees half of the change.
        object.__setattr__(self, "__dict__", fresh.__dict__)
        object.__setattr__(self, "__pydantic_extra__", fresh.__pydantic_extra__)
        return self
