"""The other hosts of an attempt, as its supervisor on the lead host sees them. Empty for a job on one host."""

from collections.abc import Sequence


class Members:
    """One member process on every host but the lead, each at the end of an ssh connection."""

    @property
    def hosts(self) -> Sequence[str]:
        """Their names, in the order of the ranks."""
        return ()

    def extend(self, seconds: float) -> None:
        """Let the ranks there run for another so many seconds from now."""

    def lost(self) -> str | None:
        """A sentence that names a host whose connection broke; None while all are there."""
        return None

    def ask_to_stop(self) -> None:
        """Put the stop file before the ranks there."""

    def signal(self, number: int) -> None:
        """Send a signal to every process of the attempt there."""

    def are_gone(self) -> bool:
        """Whether no process of the attempt is left there, by the last word of each; a lost one has none."""
        return True

    def clean(self) -> Sequence[str]:
        """The hosts that said that no process of the attempt is left and that all their lines were sent."""
        return ()

    def close(self) -> None:
        """Let the members go: they end what is left and leave."""
