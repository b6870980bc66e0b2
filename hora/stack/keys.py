"""Makes the keys of a stack's hosts. Used by `hora keys`."""

import os
import shutil
import subprocess
from pathlib import Path

from hora.home import StackError
from jobs.runtime.ssh_keys import SshKeys


def make_keys(folder: Path) -> list[Path]:
    """Make both pairs in `folder` and return their files. Raises `StackError`, also if one exists already."""
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        raise StackError("ssh-keygen is not installed (Debian: openssh-client).")
    keys = SshKeys(folder)
    pairs = {keys.client_key: keys.client_public_key, keys.host_key: keys.host_public_key}
    files = [file for pair in pairs.items() for file in pair]
    if existing := [file for file in files if file.exists()]:
        raise StackError(
            f"{existing[0]} is there already. Hosts with the old keys could not connect any more. Remove it first."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for private in pairs:
            _make(keygen, private)
    except OSError as error:
        raise StackError(f"No keys can be made in {folder}: {error.strerror}.") from error
    return files


def _make(keygen: str, private: Path) -> None:
    argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", f"hora {private.name}", "-f", str(private.absolute())]
    made = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise StackError(f"ssh-keygen failed: {made.stderr.strip() or made.returncode}")
    os.chmod(private, 0o600)
