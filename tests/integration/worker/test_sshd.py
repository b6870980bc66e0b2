"""Who may connect to a worker's ssh server, and what they may run. With real ssh and sshd, on loopback."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.stack.keys import make_keys
from jobs.runtime.settings import Settings
from jobs.runtime.ssh_keys import SshKeys
from tests.integration.worker.ssh_site import serving_ssh, settings_with_keys
from worker.host.ssh import SshFiles, SshUnusable, client_config, command, files_of, prepare, server_config
from worker.host.sshd import Sshd


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_with_keys(tmp_path / "home", tmp_path / "my 100% keys", "ha")


@pytest.fixture
def ssh_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    monkeypatch.setenv("HORA_TOKEN", "t0p")
    with serving_ssh(settings) as server:
        yield server


def ssh(settings: Settings, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command over ssh as a host of the stack does."""
    argv = [*command(files_of(settings)), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.usefixtures("ssh_server")
def test_the_stacks_key_runs_commands_without_the_workers_secrets(settings: Settings) -> None:
    done = ssh(settings, "127.0.0.1", "echo out; echo err >&2; env; exit 7")
    assert (done.returncode, done.stdout.splitlines()[0]) == (7, "out")
    assert "err" in done.stderr
    assert "t0p" not in done.stdout
    assert "HORA_" not in done.stdout


@pytest.mark.usefixtures("ssh_server")
def test_only_commands_are_accepted(settings: Settings) -> None:
    terminal = ssh(settings, "-tt", "127.0.0.1", "tty")
    assert "PTY allocation request failed" in terminal.stderr
    port = settings.ssh_port
    forwarded = ssh(settings, "-o", "ClearAllForwardings=no", "-W", f"127.0.0.1:{port}", "127.0.0.1")
    assert forwarded.returncode != 0
    assert "SSH-2.0" not in forwarded.stdout


@pytest.mark.usefixtures("ssh_server")
def test_an_unknown_client_key_and_an_unknown_host_key_are_refused(settings: Settings, tmp_path: Path) -> None:
    make_keys(tmp_path / "others")
    other = SshKeys(tmp_path / "others")
    shutil.copy(other.client_key, SshKeys(tmp_path / "my 100% keys").client_key)
    refused = ssh(settings, "127.0.0.1", "true")
    assert (refused.returncode, refused.stderr.strip().endswith("Permission denied (publickey).")) == (255, True)
    files_of(settings).known_hosts.write_text(f"* {' '.join(other.host_public_key.read_text().split()[:2])}\n")
    disbelieved = ssh(settings, "127.0.0.1", "true")
    assert disbelieved.returncode == 255
    assert "Host key verification failed." in disbelieved.stderr


def test_a_connection_outlives_the_ssh_server(settings: Settings, ssh_server: Sshd) -> None:
    argv = [*command(files_of(settings)), "127.0.0.1", "cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as there:
        assert there.stdin is not None
        assert there.stdout is not None
        there.stdin.write("before\n")
        there.stdin.flush()
        assert there.stdout.readline() == "before\n"
        ssh_server.stop()
        ssh_server.join()
        assert ssh(settings, "127.0.0.1", "true").returncode == 255
        assert there.communicate("after\n")[0] == "after\n"
        assert there.returncode == 0


def test_missing_keys_and_settings_are_reported(settings: Settings) -> None:
    (settings.ssh_dir or Path()).joinpath("host_ed25519.pub").unlink()
    with pytest.raises(SshUnusable, match=r"has no host_ed25519\.pub: run `hora keys` once for all hosts"):
        prepare(settings)
    with pytest.raises(SshUnusable, match="HORA_SSH_DIR is not set"):
        prepare(settings.model_copy(update={"ssh_dir": None}))


KEYS, FILES = SshKeys(Path("/etc/hora ssh/100%")), SshFiles(Path("/home/ssh/ha"))


def options(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_silent_connection_is_closed_after_half_a_lease_but_not_before_six_seconds() -> None:
    for lease_s, interval_s in ((60.0, "5"), (12.0, "1"), (2.0, "1")):
        told = options(client_config(KEYS, FILES, user="hora", port=2222, lease_s=lease_s))
        assert (told["ServerAliveInterval"], told["ServerAliveCountMax"]) == (interval_s, "6")
        assert told["IdentityFile"] == '"/etc/hora ssh/100%%/client_ed25519"'


def test_sshd_admits_one_user_with_one_key_to_run_commands_only() -> None:
    sshd = options(server_config(KEYS, FILES, user="hora"))
    assert sshd["AuthorizedKeysFile"] == '"/home/ssh/ha/authorized_keys"'
    assert sshd["AllowUsers"] == "hora"
    assert sshd["AuthenticationMethods"] == "publickey"
    assert {sshd[name] for name in ("PasswordAuthentication", "KbdInteractiveAuthentication", "UsePAM")} == {"no"}
    assert {sshd[name] for name in ("PermitTTY", "PermitUserRC", "PermitUserEnvironment", "PermitTunnel")} == {"no"}
    assert sshd["DisableForwarding"] == "yes"
    assert "AcceptEnv" not in sshd
