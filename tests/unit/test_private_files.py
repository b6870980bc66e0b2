"""Rules for the source tree: what Hora makes is closed to other users of the host. An acceptance test tries it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "hora", "jobs", "migrations", "trainer", "worker")

# Processes that leave the umask to the person, and why.
OF_A_PERSON = {
    "api/document.py": "prints, for developers",
    "api/processes/code_inspection.py": "writes to a pipe, and may write to no file",
    "api/processes/plot.py": "writes to a pipe",
    "api/processes/article_page.py": "writes to a pipe",
    "hora/run/__main__.py": "is a person's script; ranks start scripts with a umask that closes what they make",
    "trainer/script/confinement.py": "prints, for `hora doctor`",
    "trainer/script/drop_rights.py": "sets the umask of its orders",
    "hora/__main__.py": "writes where its person says; in HORA_HOME with modes of its own",
    "migrations/__main__.py": "writes to the database, and source files for developers",
}
# Modes with rights for others, and why.
OPEN_MODES = {
    ("hora/service/downloads.py", "0o666"): "a person's own download, under the umask of the person",
    ("hora/stack/postgres.py", "0o710"): "the group of the database's user passes through",
    ("hora/stack/postgres.py", "0o750"): "the group of the database's user runs its programs",
    ("trainer/script/packages.py", "0o711"): "scripts may run as another user",
    ("trainer/script/packages.py", "0o644"): "scripts may run as another user",
    ("trainer/script/confinement.py", "0o007"): "what a script makes may be read by the worker's group",
    ("jobs/runtime/script_user.py", "0o660"): "likewise",
    ("jobs/runtime/script_user.py", "0o2770"): "likewise",
    ("jobs/runtime/script_user.py", "0o110"): "a mask: what may be run stays so",
    ("jobs/runtime/script_user.py", "0o111"): "likewise",
    ("jobs/runtime/script_user.py", "0o011"): "the user of scripts passes through",
    ("hora/stack/postgres.py", "0o640"): "the group of the database's user reads its programs",
}
# Folders that are made without a mode, and why.
OPEN_FOLDERS = {
    "hora/service/downloads.py": "a person's own download, under the umask of the person",
    "hora/service/sending_code.py": "a person's own download, under the umask of the person",
    "hora/run/given.py": "a script's own folders, under the umask of the script",
    "hora/run/checkpoints.py": "likewise",
    "hora/run/media.py": "likewise",
}


def modules() -> Iterator[tuple[str, str]]:
    """The path of every module of the product below the root, and its text."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def is_a_process(name: str, text: str) -> bool:
    return name.endswith("__main__.py") or '__name__ == "__main__"' in text or "def create_app(" in text


PROCESSES = [name for name, text in modules() if is_a_process(name, text)]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_closes_what_it_makes_to_other_users(name: str) -> None:
    sets_umask = re.search(r"^ *os\.umask\((PRIVATE_UMASK|0o077)\)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert bool(sets_umask) != (name in OF_A_PERSON), f"{name} has to call os.umask(PRIVATE_UMASK), or say why not here"


def test_no_mode_has_rights_for_others_without_a_reason() -> None:
    literals = {(name, mode) for name, text in modules() for mode in re.findall(r"\b0o[0-7]{3,4}\b", text)}
    constants = {"jobs/runtime/files.py", "jobs/runtime/closed_home.py", "hora/doctor/machine.py", "hora/config.py"}
    assert constants <= {name for name, _ in literals}
    open_modes = {(name, mode) for name, mode in literals if int(mode, 8) & 0o077 and int(mode, 8) != 0o077}
    masks = {  # of modes that are looked at, and the one that lets scripts read their packages
        ("jobs/runtime/closed_home.py", "0o011"), ("hora/home.py", "0o022"), ("trainer/script/packages.py", "0o022"),
        ("worker/alone/folder.py", "0o022"),
    }  # fmt: skip
    assert open_modes - masks == set(OPEN_MODES)


def test_no_folder_is_made_without_a_mode() -> None:
    without_mode = {
        f"{name}:{call.lineno}"
        for name, text in modules()
        if name not in OPEN_FOLDERS and re.search(r"\.(mkdir|makedirs)\(", text)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if call.func.attr in {"mkdir", "makedirs"} and not any(keyword.arg == "mode" for keyword in call.keywords)
    }
    assert without_mode == set(), "make them with jobs.runtime.files.make_private"
