"""The configurations of ssh and sshd: they use only the stack's keys and ignore the machine's settings."""

from pathlib import Path

from jobs.runtime.ssh_keys import SshKeys
from worker.host.ssh import SshFiles, authorized_keys, client_config, known_hosts, server_config

KEYS, FILES = SshKeys(Path("/etc/hora ssh/100%")), SshFiles(Path("/home/ssh/ha"))


def options(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_ssh_uses_one_client_key_and_one_file_of_known_hosts() -> None:
    told = options(client_config(KEYS, FILES, user="hora", port=2222, lease_s=60))
    assert told["IdentityFile"] == '"/etc/hora ssh/100%%/client_ed25519"'
    assert told["UserKnownHostsFile"] == '"/home/ssh/ha/known_hosts"'
    assert (told["GlobalKnownHostsFile"], told["IdentityAgent"], told["IdentitiesOnly"]) == ("none", "none", "yes")
    assert (told["StrictHostKeyChecking"], told["BatchMode"]) == ("yes", "yes")
    assert (told["User"], told["Port"]) == ("hora", "2222")


def test_silent_connection_is_closed_after_half_a_lease_but_not_before_six_seconds() -> None:
    for lease_s, interval_s in ((60.0, "5"), (12.0, "1"), (2.0, "1")):
        told = options(client_config(KEYS, FILES, user="hora", port=2222, lease_s=lease_s))
        assert (told["ServerAliveInterval"], told["ServerAliveCountMax"]) == (interval_s, "6")


def test_sshd_admits_one_user_with_one_key_to_run_commands_only() -> None:
    sshd = options(server_config(KEYS, FILES, user="hora"))
    assert sshd["AuthorizedKeysFile"] == '"/home/ssh/ha/authorized_keys"'
    assert sshd["AllowUsers"] == "hora"
    assert sshd["AuthenticationMethods"] == "publickey"
    assert {sshd[name] for name in ("PasswordAuthentication", "KbdInteractiveAuthentication", "UsePAM")} == {"no"}
    assert {sshd[name] for name in ("PermitTTY", "PermitUserRC", "PermitUserEnvironment", "PermitTunnel")} == {"no"}
    assert sshd["DisableForwarding"] == "yes"
    assert "AcceptEnv" not in sshd


def test_keys_are_written_without_their_comments() -> None:
    assert known_hosts("ssh-ed25519 AAAA somebody@somewhere\n") == "* ssh-ed25519 AAAA\n"
    assert authorized_keys("ssh-ed25519 AAAA somebody@somewhere\n") == "restrict ssh-ed25519 AAAA\n"
