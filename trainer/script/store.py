"""What the ranks of an attempt tell each other: short texts in the store of Horovod's launcher, which all can reach.

Horovod's ranks find each other through it too. It answers plain HTTP, to every process of the host. So the texts of an
attempt stand below a secret, which its launch file tells the ranks and no script. Standard library only.
"""

import http.client
import os
import time
from collections.abc import Mapping

_PERIOD_S = 0.02
_TIMEOUT_S = 5.0


class Store:
    """The store of this attempt. With one rank, or without a launcher, nothing is sent."""

    def __init__(self, secret: str, environment: Mapping[str, str] = os.environ) -> None:
        self._scope = f"hora-{secret}"
        self.address = environment.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
        self._port = int(environment.get("HOROVOD_GLOO_RENDEZVOUS_PORT") or 0)

    def put(self, key: str, value: str) -> None:
        """Store a text. If the launcher is gone, nothing happens: this rank is ended soon."""
        self._request("PUT", key, value)

    def get(self, key: str) -> str | None:
        """The text of this key; None if there is none, or the launcher is gone."""
        return self._request("GET", key)

    def wait_for(self, key: str, *, within_s: float) -> str | None:
        """The text of this key, as soon as there is one. None after `within_s`."""
        give_up_at = time.monotonic() + within_s
        while (value := self.get(key)) is None and time.monotonic() < give_up_at:
            time.sleep(_PERIOD_S)
        return value

    def _request(self, method: str, key: str, value: str = "") -> str | None:
        if not self.address:
            return None
        connection = http.client.HTTPConnection(self.address, self._port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, f"/{self._scope}/{key}", body=value.encode() if method == "PUT" else None)
            answer = connection.getresponse()
            content = answer.read()
            return content.decode() if answer.status == http.client.OK else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
