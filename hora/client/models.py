"""The models that a spec can name."""

from hora.client.resource import Resource, reads_list
from hora.service import Service
from jobs.model.catalog import Model


class Models(Resource):
    """`client.models`."""

    list = reads_list(Model, Service.models)
