"""Hosts: find, drain, forget. And the models that train there."""

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class HostCalls(Calls):
    """The requests about hosts."""

    def hosts(self) -> list[Json]:
        """The hosts and their slots."""
        return list(self._wire.pages(api_path("hosts")))

    def host(self, name: str) -> Json:
        """One host and its slots."""
        return self._wire.document("GET", api_path("hosts", name))

    def host_utilization(
        self, name: str, *, metric: str | None = None, minutes: float | None = None, max_points: int | None = None
    ) -> Json:
        """The load of the whole host in the last minutes: `{start, series: [{metric, unit, x, y}]}`, x in seconds."""
        query = {"metric": metric, "minutes": minutes, "max_points": max_points}
        return self._wire.document("GET", api_path("hosts", name, "utilization"), params=query)

    def drain(self, name: str, *, requeue: bool = False) -> Json:
        """Give the host no new jobs. With `requeue` its jobs save, and continue on other hosts."""
        return self._wire.document("POST", api_path("hosts", name, "drain"), json={"requeue": requeue}, repeatable=True)

    def undrain(self, name: str) -> Json:
        """Give the host new jobs again."""
        return self._wire.document("POST", api_path("hosts", name, "undrain"), repeatable=True)

    def forget_host(self, name: str) -> None:
        """Remove a lost host. It registers again if it comes back."""
        self._wire.send("DELETE", api_path("hosts", name))

    def models(self) -> list[Json]:
        """The models that a spec can name."""
        return list(self._wire.pages(api_path("models")))
