"""Mistakes in the command of a script that show before its folder is sent. Pure; called by `hora run`.

It says only what is sure: programs, options and files of a host are not known here.
"""

import posixpath
from collections.abc import Mapping, Sequence

from hora.errors import Json
from jobs.model.problems import FieldProblem
from jobs.model.script_fields import REQUIREMENTS_FILE
from jobs.suggestions import meant

_PYTHONS = frozenset({"python", "python3"})
_EXECUTABLE = 0o100


def command_problems(spec: Json, modes: Mapping[str, int]) -> list[FieldProblem]:
    """What is wrong with the command and the requirements of a spec, by the modes of the files that are sent."""
    command, problems = spec.get("command"), []
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        script, program = _script_of(command), _in_folder(command[0])
        if script is not None and script not in modes:
            message = f"{script} is not among the files that are sent{meant(script, modes)}"
            problems.append(FieldProblem("command", message))
        elif program and program.endswith(".py") and not modes.get(program, _EXECUTABLE) & _EXECUTABLE:
            problems.append(FieldProblem("command", f"{program} is no program; did you mean `python {program}`?"))
    if spec.get("requirements") == REQUIREMENTS_FILE and REQUIREMENTS_FILE not in modes:
        problems.append(FieldProblem("requirements", f"{REQUIREMENTS_FILE} is not among the files that are sent"))
    return problems


def _script_of(command: Sequence[str]) -> str | None:
    """The file in the folder that Python is to run. None if that is not sure."""
    if command[0] not in _PYTHONS:
        return None
    for word in command[1:]:
        if not word.startswith("-"):
            is_sure = word.endswith(".py") and "{" not in word
            return _in_folder(word) if is_sure else None
        if word.startswith("--") or not {"m", "c", "W", "X"}.isdisjoint(word):  # what follows is no file
            return None
    return None


def _in_folder(path: str) -> str | None:
    """A path from the top of the folder; None if it leads out of it."""
    path = posixpath.normpath(path)
    return None if path.startswith(("/", "..")) else path
