"""The fields of a spec that are for scripts, and those that a script cannot honour. Pure; used by `jobs.model.spec`.

A script is a job with `code`: Hora launches, watches and measures it, but it trains in its own loop.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, WithJsonSchema

from jobs.suggestions import similar_to

MOST_PARAMS_BYTES = 64 * 1024  # as JSON
MOST_COMMAND_BYTES = 64 * 1024
MOST_FILLED_BYTES = 60 * 1024  # of its values; Linux takes 128 KiB in one argument
_MOST_DEPTH = 16

# Variables that Hora sets itself, and those that change how programs are loaded or how ranks find each other.
_RESERVED_PREFIXES = ("HORA_", "HOROVOD_", "NCCL_", "GLOO_", "LD_", "PYTHON")
_RESERVED = frozenset({
    "CUDA_VISIBLE_DEVICES", "HOME", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOGNAME", "MASTER_ADDR", "MASTER_PORT", "PATH",
    "RANK", "TMPDIR", "USER", "VIRTUAL_ENV", "WORLD_SIZE",
})  # fmt: skip

# What the loop of Hora does and a script does itself. `params` is the way to hand such a choice over.
LOOP_FIELDS = (
    "model", "strategy", "accumulate", "schedule", "optimizer", "weight_decay", "clip_norm", "label_smoothing",
    "class_weights", "validation_steps", "precision", "jit", "allreduce", "probe", "checkpoint.every_epochs",
)  # fmt: skip
LOOP_DATASET_FIELDS = (
    "text_length",
    "vocabulary",
    "fraction",
    "samples",
    "balance",
    "sharding",
    "shuffle_buffer",
    "cache",
    "augment",
    "augment_mode",
)


def _env_name(name: str) -> str:
    if name.upper().startswith(_RESERVED_PREFIXES) or name in _RESERVED:
        prefixes = ", ".join(f"{prefix}*" for prefix in _RESERVED_PREFIXES)
        raise ValueError(
            f"{name} cannot be set: {prefixes} and {', '.join(sorted(_RESERVED))} are set by Hora and the operator"
        )
    return name


def _storable(text: str) -> str:
    """A text that PostgreSQL and a process's arguments can hold."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("has a character that no text may have: NUL, or half of a surrogate pair")
    return text


def _storable_json(value: dict[str, Any]) -> dict[str, Any]:
    _check_json(value, depth=1)
    if len(json.dumps(value)) > MOST_PARAMS_BYTES:
        raise ValueError(f"params may take {MOST_PARAMS_BYTES // 1024} KiB of JSON: put larger things into a file")
    return value


def _check_json(value: object, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError(f"params may be nested {_MOST_DEPTH} deep")
    if isinstance(value, str):
        _storable(value)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("NaN and Infinity are no JSON numbers: write them as texts")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number must fit into 64 bits: write a larger one as a text")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _storable(key)
            _check_json(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json(inner, depth + 1)


# A `format` names the syntax of a text: see tests/fuzz/texts.py.
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(json_schema_extra={"format": "digest"})]
Argument = Annotated[
    str,
    StringConstraints(max_length=16_384),
    AfterValidator(_storable),
    Field(json_schema_extra={"format": "argument"}),
]
Params = Annotated[dict[str, JsonValue], AfterValidator(_storable_json)]
EnvName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128), AfterValidator(_env_name)
]
EnvValue = Annotated[str, StringConstraints(max_length=4096), AfterValidator(_storable)]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
EMPTY = "empty"  # the environment without any package
OWN_ENVIRONMENTS = ("default", EMPTY)  # `default` has the worker's packages; the operator lists more
# One line of a requirements file: a name with versions, extras and markers (PEP 508), but no option, URL or path.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?\s*([<>=!~][A-Za-z0-9.*+!,<>=~ -]*)?(;[ -~]*)?"
)
REQUIREMENTS_FILE = "requirements.txt"
_MOST_REQUIREMENTS = 256


def is_requirement(line: str) -> bool:
    """Whether a line names a package, with versions, extras and markers: no option, URL or path."""
    return len(line) <= 256 and _REQUIREMENT.fullmatch(line) is not None


def _requirements(value: Any) -> Any:
    if value == REQUIREMENTS_FILE:
        return value
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_REQUIREMENTS:
        raise ValueError(f"write a list of packages (at most {_MOST_REQUIREMENTS}), or {REQUIREMENTS_FILE}")
    for line in value:
        if not isinstance(line, str) or not is_requirement(line):
            raise ValueError(f"{line!r:.80} is no name of a package with versions, such as einops>=0.8")
    return value


Requirements = Annotated[
    list[str] | str,
    BeforeValidator(_requirements),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 256, "format": "requirement"},
                    "minItems": 1,
                    "maxItems": _MOST_REQUIREMENTS,
                },
                {"type": "string", "const": REQUIREMENTS_FILE},
            ]
        }
    ),
]

_PLACE = re.compile(r"\{(\{?)([A-Za-z_]\w*(?:\.[\w-]+)*)\}(\}?)")


class WrongPlaceholder(ValueError):
    """A placeholder in a command cannot be filled in; the text is a sentence."""


class CommandTooLong(WrongPlaceholder):
    """The values of the placeholders make the command too long."""


class UnknownPlaceholder(WrongPlaceholder):
    """A `{name}` in a command that stands for nothing."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        similar = similar_to(name, known)
        meant = "" if similar is None else f"Did you mean {{{similar}}}? "
        super().__init__(
            f"There is no placeholder {{{name}}}. {meant}There are {', '.join(known)}. For the text itself write"
            f" {{{{{name}}}}}"
        )


def filled_in(command: Sequence[str], values: Mapping[str, Any]) -> Iterator[str]:
    """The arguments of a command with each `{name}` replaced by its value; `{{name}}` becomes `{name}`.

    `values` are by dotted name. Texts are put in as they are, all else as JSON. Other braces stay.
    Raises `UnknownPlaceholder`, and `CommandTooLong` if the values take more than `MOST_FILLED_BYTES`.
    """
    room = MOST_FILLED_BYTES

    def value_of(match: re.Match[str]) -> str:
        nonlocal room
        opened, name, closed = match.groups()
        if opened and closed:
            return f"{{{name}}}"
        if name not in values:
            raise UnknownPlaceholder(name, sorted(values))
        value = values[name] if isinstance(values[name], str) else json.dumps(values[name])
        room -= len(value.encode())
        if room < 0:
            raise CommandTooLong(
                f"With the value of {{{name}}} the values in the command take more than {MOST_FILLED_BYTES:,} bytes."
                " Read large ones from run.params"
            )
        return f"{opened}{value}{closed}"

    for argument in command:
        yield _PLACE.sub(value_of, argument)
