"""The keys by which the hosts of one stack know each other: the files of `HORA_SSH_DIR`, equal on all of them.

Made by `hora keys`, used by the worker, looked at by `hora doctor`.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SshKeys:
    """One pair that hosts log in with, and one by which they are known to be of this stack."""

    folder: Path

    @property
    def client_key(self) -> Path:
        """Who has it may run commands as the worker's user on every host of the stack."""
        return self.folder / "client_ed25519"

    @property
    def client_public_key(self) -> Path:
        """The only one that may log in."""
        return self.folder / "client_ed25519.pub"

    @property
    def host_key(self) -> Path:
        """By which each host shows that it is one of the stack's."""
        return self.folder / "host_ed25519"

    @property
    def host_public_key(self) -> Path:
        """The only one that a host is believed by."""
        return self.folder / "host_ed25519.pub"

    def missing(self) -> list[str]:
        """Names of the files that are not there."""
        files = (self.client_key, self.client_public_key, self.host_key, self.host_public_key)
        return [file.name for file in files if not file.is_file()]
