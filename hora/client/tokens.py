"""Tokens: who may use the service, and for what."""

from hora.client.resource import Resource, reads, reads_pages, returns
from hora.service import Service
from jobs.views.people import CreatedTokenView, MeView, TokenView


class Tokens(Resource):
    """`client.tokens`."""

    me = reads(MeView, Service.me)
    create = reads(CreatedTokenView, Service.create_token)
    list = reads_pages(TokenView, Service.tokens)
    get = reads(TokenView, Service.token)
    revoke = returns(Service.revoke_token)
