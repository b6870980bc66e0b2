"""Hosts: look up, drain, forget; and the networks that train there."""

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import at


class HostCalls(Calls):
    """What is asked of hosts."""

    def hosts(self) -> list[Json]:
        """The hosts and their slots."""
        return list(self._wire.pages(at("hosts")))

    def host(self, name: str) -> Json:
        """One host and its slots."""
        return self._wire.document("GET", at("hosts", name))

    def host_utilization(
        self, name: str, *, metric: str | None = None, minutes: float | None = None, max_points: int | None = None
    ) -> Json:
        """What the whole host did in the last minutes: `{start, series: [{metric, unit, x, y}]}`, x in seconds."""
        query = {"metric": metric, "minutes": minutes, "max_points": max_points}
        return self._wire.document("GET", at("hosts", name, "utilization"), params=query)

    def drain(self, name: str, *, requeue: bool = False) -> Json:
        """Place nothing new on the host; with `requeue` the jobs there save and go elsewhere."""
        return self._wire.document("POST", at("hosts", name, "drain"), json={"requeue": requeue}, again=True)

    def undrain(self, name: str) -> Json:
        """Let jobs be placed on the host again."""
        return self._wire.document("POST", at("hosts", name, "undrain"), again=True)

    def forget_host(self, name: str) -> None:
        """Remove a host that is lost; it registers anew if it comes back."""
        self._wire.send("DELETE", at("hosts", name))

    def models(self) -> list[Json]:
        """The networks that a spec can name."""
        return list(self._wire.pages(at("models")))
