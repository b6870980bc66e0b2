"""The scopes of tokens. Pure, because the client uses them too."""

from enum import StrEnum


class Scope(StrEnum):
    """What a token allows: `read`, `submit`, `code` or `admin`. Each scope includes the ones before it."""

    READ = "read"
    SUBMIT = "submit"  # and steer their own jobs and those of their projects
    CODE = "code"  # and let hosts run the code that they send
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Whether a token with this scope is enough where `needed` is required."""
        return _RANKS[self] >= _RANKS[needed]

    @property
    def covered(self) -> "list[Scope]":
        """This scope and the narrower ones."""
        return [scope for scope in Scope if self.covers(scope)]


_RANKS = {scope: position for position, scope in enumerate(Scope)}
