"""What a token lets its user do. Pure: the client knows it too."""

from enum import StrEnum


class Scope(StrEnum):
    """What a token lets its user do; each includes those before it."""

    READ = "read"
    SUBMIT = "submit"  # and steer what is their own, or their projects'
    ADMIN = "admin"

    def covers(self, needed: "Scope") -> bool:
        """Whether a token with this scope may do what needs the scope `needed`."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {scope: position for position, scope in enumerate(Scope)}
