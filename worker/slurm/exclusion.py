"""Keeps the jobs of a pool from nodes on which attempts failed: Slurm calls that an exclusion."""

from collections.abc import Sequence

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from jobs.scheduling import allocations
from jobs.scheduling.allocations import LiveAllocation
from jobs.scheduling.pools import PoolNode, to_avoid


class Exclusion:
    """Which nodes each job of one pool avoids, and which of its jobs wait in Slurm with an old list.

    `failing` are the nodes that all jobs avoid. An `--exclude` of the operator wins, so no list is ever old.
    """

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self.failing: tuple[str, ...] = ()
        self._sessions = sessions
        self._pool = settings.host
        self._is_of_operator = any(option.startswith("--exclude") for option in settings.slurm_options)
        self._known: dict[int, tuple[str, ...]] = {}  # which failing nodes Slurm knows of, by allocation

    def look(self) -> None:
        """Read which nodes fail now."""
        with self._sessions() as session:
            self.failing = tuple(allocations.failing_nodes(session, self._pool))

    def keep(self, live: Sequence[LiveAllocation]) -> None:
        """Forget allocations that are not among these."""
        self._known = {one.id: self._known[one.id] for one in live if one.id in self._known}

    def nodes_for(self, allocation: LiveAllocation, nodes: Sequence[PoolNode]) -> list[str]:
        """The nodes that an attempt avoids, of these nodes of its pool."""
        with self._sessions() as session:
            of_job = allocations.failing_nodes(session, self._pool, for_job=allocation.job_id)
        return to_avoid(nodes, allocation.shape, [*of_job, *self.failing])

    def is_old(self, allocation: LiveAllocation) -> bool:
        """Whether other nodes fail now than when Slurm was told."""
        return not self._is_of_operator and self._known.get(allocation.id, ()) != self.failing

    def is_told(self, allocation: LiveAllocation) -> None:
        """Note that Slurm has the list of now."""
        self._known[allocation.id] = self.failing
