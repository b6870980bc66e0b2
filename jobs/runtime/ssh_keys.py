"""The keys with which the hosts of one stack log in to each other: the files of `HORA_SSH_DIR`, the same on all hosts.

Made by `hora keys`, used by the worker, checked by `hora doctor`.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SshKeys:
    """A key pair that hosts log in with, and a key pair that identifies each of them as a host of this stack."""

    folder: Path

    @property
    def client_key(self) -> Path:
        """With this key one can run commands as the worker's user on every host of the stack."""
        return self.folder / "client_ed25519"

    @property
    def client_public_key(self) -> Path:
        """The only key that may log in."""
        return self.folder / "client_ed25519.pub"

    @property
    def host_key(self) -> Path:
        """The key with which each host proves that it belongs to the stack."""
        return self.folder / "host_ed25519"

    @property
    def host_public_key(self) -> Path:
        """The only host key that the other hosts accept."""
        return self.folder / "host_ed25519.pub"

    def missing(self) -> list[str]:
        """Names of the files that are not there."""
        files = (self.client_key, self.client_public_key, self.host_key, self.host_public_key)
        return [file.name for file in files if not file.is_file()]
