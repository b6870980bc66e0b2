"""ssh between the hosts of a stack: configurations of a client and a server, independent of the system's.

The worker writes both when it starts (`prepare`). Supervisors and Horovod's launcher connect with `command`, and
`worker.host.sshd` serves. The server accepts only the stack's own key, and the client trusts only the stack's own host
key. Settings, agents and known hosts of the user and the machine are ignored.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.files import make_private
from jobs.runtime.settings import Settings
from jobs.runtime.ssh_keys import SshKeys

_SBIN = "/usr/sbin:/usr/local/sbin:/sbin"
_ALIVE_COUNT = 6  # silent rounds after which a connection is given up


class SshUnusable(RuntimeError):
    """This host cannot take part in jobs on several hosts; the message says why."""


@dataclass(frozen=True)
class SshFiles:
    """The files that `prepare` writes for one host. Each host has its own, because hosts may share `HORA_HOME`."""

    folder: Path

    @property
    def client_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def server_config(self) -> Path:
        return self.folder / "sshd_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def authorized_keys(self) -> Path:
        return self.folder / "authorized_keys"


def files_of(settings: Settings) -> SshFiles:
    """The paths of this host's ssh files."""
    return SshFiles(settings.home / "ssh" / settings.host)


def command(files: SshFiles) -> list[str]:
    """The ssh command between hosts. A host's address and a command follow it."""
    return ["ssh", "-F", str(files.client_config)]


def user_name() -> str:
    """The user who runs this process, which is also the login name on other hosts. Raises `SshUnusable`."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise SshUnusable(f"user id {os.geteuid()} has no name, and ssh needs one") from None


def find_sshd() -> str:
    """The path of OpenSSH's server. Raises `SshUnusable`."""
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
    if sshd is None or shutil.which("ssh") is None:
        raise SshUnusable("ssh and sshd are not both installed (Debian: openssh-client, openssh-server)")
    return os.path.abspath(sshd)


def prepare(settings: Settings) -> SshFiles:
    """Write this host's files again. Raises `SshUnusable` without keys, ssh or a user name."""
    if settings.ssh_dir is None:
        raise SshUnusable("HORA_SSH_DIR is not set")
    keys, files, user = SshKeys(settings.ssh_dir.absolute()), files_of(settings), user_name()
    find_sshd()
    if missing := keys.missing():
        raise SshUnusable(f"{keys.folder} has no {' and no '.join(missing)}: run `hora keys` once for all hosts")
    try:
        make_private(files.folder)
        text_by_path = {
            files.client_config: client_config(
                keys, files, user=user, port=settings.ssh_port, lease_s=settings.lease_s
            ),
            files.server_config: server_config(keys, files, user=user),
            files.known_hosts: known_hosts(keys.host_public_key.read_text()),
            files.authorized_keys: authorized_keys(keys.client_public_key.read_text()),
        }
        for path, text in text_by_path.items():
            unfinished = path.with_suffix(".new")
            unfinished.write_text(text)
            os.replace(unfinished, path)
    except OSError as error:
        raise SshUnusable(str(error)) from error
    return files


def client_config(keys: SshKeys, files: SshFiles, *, user: str, port: int, lease_s: float) -> str:
    """The configuration of the client. A silent connection is closed after about half a lease."""
    return _lines(
        User=user,
        Port=port,
        IdentityFile=_path(keys.client_key),
        IdentitiesOnly="yes",
        IdentityAgent="none",
        PreferredAuthentications="publickey",
        UserKnownHostsFile=_path(files.known_hosts),
        GlobalKnownHostsFile="none",
        StrictHostKeyChecking="yes",
        HostKeyAlgorithms="ssh-ed25519",
        UpdateHostKeys="no",
        BatchMode="yes",
        ConnectTimeout=10,
        ServerAliveInterval=_alive_interval_s(lease_s),
        ServerAliveCountMax=_ALIVE_COUNT,
        ControlPath="none",
        ForwardAgent="no",
        ForwardX11="no",
        ClearAllForwardings="yes",
        RequestTTY="no",
        LogLevel="ERROR",
    )


def server_config(keys: SshKeys, files: SshFiles, *, user: str) -> str:
    """The configuration of the server. It accepts only the stack's key, for commands as the worker's own user.

    sshd does not check who else may write to the folders above the file of authorized keys. That file is below
    HORA_HOME, and users who may write there need no ssh.
    """
    return _lines(
        HostKey=_path(keys.host_key, has_tokens=False),
        AuthorizedKeysFile=_path(files.authorized_keys),
        StrictModes="no",
        AllowUsers=user,
        PermitRootLogin="prohibit-password",
        AuthenticationMethods="publickey",
        PubkeyAuthentication="yes",
        PasswordAuthentication="no",
        KbdInteractiveAuthentication="no",
        HostbasedAuthentication="no",
        PermitEmptyPasswords="no",
        UsePAM="no",
        DisableForwarding="yes",
        PermitTTY="no",
        PermitUserRC="no",
        PermitUserEnvironment="no",
        PermitTunnel="no",
        MaxSessions=1,
        LoginGraceTime=20,
        ClientAliveInterval=5,
        ClientAliveCountMax=_ALIVE_COUNT,
        UseDNS="no",
        PrintMotd="no",
        PrintLastLog="no",
        PidFile="none",
        LogLevel="ERROR",
    )


def known_hosts(host_public_key: str) -> str:
    """One line for all addresses: every host of the stack has the same key."""
    return f"* {_key(host_public_key)}\n"


def authorized_keys(client_public_key: str) -> str:
    """`restrict` switches off everything except running commands, including features of future versions."""
    return f"restrict {_key(client_public_key)}\n"


def _alive_interval_s(lease_s: float) -> int:
    return max(1, round(lease_s / 2 / _ALIVE_COUNT))


def _key(public_key: str) -> str:
    """Type and key, without the comment."""
    return " ".join(public_key.split()[:2])


def _lines(**options: str | int) -> str:
    return "".join(f"{name} {value}\n" for name, value in options.items())


def _path(path: Path, *, has_tokens: bool = True) -> str:
    """A path in the form of ssh's configuration: in quotes, with special characters doubled.

    `has_tokens`: whether ssh looks for tokens, such as `%h`, in this option.
    """
    quoted = '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
    return quoted.replace("%", "%%") if has_tokens else quoted
