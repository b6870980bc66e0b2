"""The networks that a spec can name."""

from collections.abc import Sequence

from hora.client.reading import read
from hora.service import Service
from jobs.model.catalog import Model


class Models:
    """`client.models`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Sequence[Model]:
        """All of them."""
        return [read(Model, one) for one in self._service.models()]
