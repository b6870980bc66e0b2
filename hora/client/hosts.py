"""The hosts that jobs run on."""

from collections.abc import Sequence

from hora.client.reading import read
from hora.service import Service
from jobs.views.hosts import HostView
from jobs.views.series import HostUtilizationView


class Hosts:
    """`client.hosts`. What changes a host is for admins."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Sequence[HostView]:
        """The hosts and their slots."""
        return [read(HostView, one) for one in self._service.hosts()]

    def get(self, name: str) -> HostView:
        """One host and its slots."""
        return read(HostView, self._service.host(name))

    def utilization(
        self, name: str, *, metric: str | None = None, minutes: float | None = None, max_points: int | None = None
    ) -> HostUtilizationView:
        """What the whole host did in the last minutes."""
        found = self._service.host_utilization(name, metric=metric, minutes=minutes, max_points=max_points)
        return read(HostUtilizationView, found)

    def drain(self, name: str, *, requeue: bool = False) -> HostView:
        """Place nothing new on the host; with `requeue` the jobs there save and go elsewhere."""
        return read(HostView, self._service.drain(name, requeue=requeue))

    def undrain(self, name: str) -> HostView:
        """Let jobs be placed on the host again."""
        return read(HostView, self._service.undrain(name))

    def forget(self, name: str) -> None:
        """Remove a host that is lost; it registers anew if it comes back."""
        self._service.forget_host(name)
