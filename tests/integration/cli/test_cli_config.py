"""Which service the command line asks, with which token, and the file that says so."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora import Client
from hora.config import Profile, config_file, read_profiles, write_profiles
from hora.connection import find_target, use_profile
from hora.errors import HoraError
from hora.home import Home
from tests.commands import hora
from tests.unit.hora.played import in_turn, json_answer, page

LOCAL = "http://127.0.0.1:1"
FILE = {"default": Profile("https://team.test", "s-team"), "lab": Profile("http://lab.test:8400", "s-lab"),
        "bare": Profile("http://bare.test")}  # fmt: skip


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A person with a stack on this machine, and a file with three profiles."""
    home = Home.at(tmp_path / "home")
    home.create()
    home.token("s-local")
    home.url_file.write_text(f"{LOCAL}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HORA_HOME": str(home.path)}
    write_profiles(config_file(environ), FILE)
    return environ


@pytest.fixture(autouse=True)
def _no_profile() -> Iterator[None]:
    yield
    use_profile(None)


@pytest.mark.parametrize(
    ("profile", "variables", "url", "token"),
    [
        (None, {}, LOCAL, "s-local"),  # HORA_HOME is set, so it is about the stack there
        (None, {"HORA_TOKEN": "s-mine"}, LOCAL, "s-mine"),
        (None, {"HORA_URL": "http://x.test/", "HORA_TOKEN": "s-mine"}, "http://x.test", "s-mine"),
        (None, {"HORA_URL": LOCAL}, LOCAL, "s-local"),
        (None, {"HORA_URL": "http://lab.test:8400"}, "http://lab.test:8400", "s-lab"),
        (None, {"HORA_URL": "https://lab.test:8400"}, "https://lab.test:8400", None),
        ("lab", {"HORA_URL": "http://x.test", "HORA_TOKEN": "s-mine"}, "http://lab.test:8400", "s-lab"),
        ("bare", {"HORA_TOKEN": "s-mine"}, "http://bare.test", None),
        ("local", {"HORA_URL": "http://x.test"}, LOCAL, "s-local"),
    ],
)
def test_a_token_is_used_only_for_its_own_service(
    environ: dict[str, str], profile: str | None, variables: dict[str, str], url: str, token: str | None
) -> None:
    use_profile(profile)
    target = find_target({**environ, **variables})
    assert (target.url, target.token) == (url, token)
    assert token is None or token not in repr(target)


def test_the_file_takes_precedence_over_the_local_stack(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(environ.pop("HORA_HOME"))
    monkeypatch.setattr("hora.connection.default_home", lambda: home)
    assert (find_target(environ).url, find_target(environ).token) == ("https://team.test", "s-team")
    target = find_target({**environ, "HORA_TOKEN": "s-mine"})
    assert (target.url, target.token) == (LOCAL, "s-mine")  # not to the file's service
    config_file(environ).unlink()
    assert find_target(environ).url == LOCAL


def test_a_token_that_others_can_read_is_refused(environ: dict[str, str]) -> None:
    file = config_file(environ)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    use_profile("lab")
    with pytest.raises(HoraError, match=r"Others can read .*chmod 600"):
        find_target(environ)
    file.write_text('[profiles.lab]\nurl = "http://lab.test"\n')  # without one anybody may
    assert find_target(environ).url == "http://lab.test"


@pytest.mark.parametrize(
    ("text", "expected_error"),
    [
        ("[profiles", "is not TOML"),
        ("url = 'http://x'", "not url"),
        ("[profiles.lab]\nurl = 3", "profile lab is not a table of texts"),
        ("[profiles.lab]\npassword = 'x'", "profile lab has password"),
    ],
)
def test_a_wrong_file_is_reported_in_one_sentence(environ: dict[str, str], text: str, expected_error: str) -> None:
    config_file(environ).write_text(text)
    with pytest.raises(HoraError, match=expected_error):
        read_profiles(config_file(environ))


def test_a_profile_is_set_used_shown_and_removed(short_folder: Path) -> None:
    more = {"XDG_CONFIG_HOME": str(short_folder)}
    assert hora(short_folder, "config", "set", "url", "http://127.0.0.1:9/", **more).returncode == 0
    set_result = hora(short_folder, "config", "set", "token", stdin="hora_secret\n", **more)
    assert (set_result.returncode, set_result.stdout) == (0, "")
    assert hora(short_folder, "--profile", "lab", "config", "set", "url", "http://lab.test", **more).returncode == 0
    as_table = hora(short_folder, "--profile", "default", "config", "show", **more)
    assert "http://127.0.0.1:9" in as_table.stdout
    as_json = json.loads(hora(short_folder, "--profile", "default", "config", "show", "--json", **more).stdout)
    assert as_json["profiles"] == [
        {"name": "default", "url": "http://127.0.0.1:9", "has_token": True},
        {"name": "lab", "url": "http://lab.test", "has_token": False},
    ]
    assert "hora_secret" not in set_result.stderr + as_table.stdout + json.dumps(as_json)
    assert "http://127.0.0.1:9 gives no answer" in hora(short_folder, "--profile", "default", "ls", **more).stderr
    moved = hora(short_folder, "config", "set", "url", "http://other.test", **more)
    assert "Its token was for the old address" in moved.stderr
    assert read_profiles(short_folder / "hora" / "config.toml")["default"] == Profile("http://other.test", None)
    hora(short_folder, "--profile", "lab", "config", "unset", "url", **more)
    assert [*read_profiles(short_folder / "hora" / "config.toml")] == ["default"]


@pytest.mark.parametrize(
    ("command", "typed", "code", "expected_error"),
    [
        ("config set token hora_secret", "", 2, "every process can read a token"),
        ("config set url http://ada:secret@lab.test", "", 1, "is not the address of a service"),
        ("config set token", "a b\n", 1, "is not a token"),
        ("config set token", "hora_secret\n", 1, "Set the url first"),
        ("--profile local config set url http://x.test", "", 1, "local is not a valid name for a profile"),
        ("--profile ../x ls", "", 1, "There is no profile ../x"),
    ],
)
def test_invalid_values_cannot_be_set(
    short_folder: Path, command: str, typed: str, code: int, expected_error: str
) -> None:
    result = hora(short_folder, *command.split(), stdin=typed, XDG_CONFIG_HOME=str(short_folder))
    assert (result.returncode, expected_error in result.stderr) == (code, True)
    assert not (short_folder / "hora").exists()


def test_the_python_client_uses_the_same_configuration(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HORA_TOKEN", raising=False)
    for name, value in {**environ, "HORA_URL": "http://lab.test:8400"}.items():
        monkeypatch.setenv(name, value)
    transport, requests = in_turn(json_answer(page()))
    with Client(transport=transport) as client:
        assert list(client.jobs.list()) == []
    assert (requests[0].url.host, requests[0].headers["Authorization"]) == ("lab.test", "Bearer s-lab")
