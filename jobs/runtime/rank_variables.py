"""Variables that the operator gives to every rank: the text of `HORA_RANK_ENV`. Read by the settings."""

import re

_NEXT = re.compile(r",(?=[^,=]*=)")  # values may contain commas: NCCL_IB_HCA=mlx5_0,mlx5_1
_KEY = re.compile(r"[A-Z_][A-Z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FAMILIES = ("NCCL_", "HOROVOD_")
# Horovod's launcher gives these to the ranks. It would not replace all of them.
_OF_LAUNCHER = re.compile(
    r"HOROVOD_((LOCAL_|CROSS_)?(RANK|SIZE)|HOSTNAME|CONTROLLER|CPU_OPERATIONS|SECRET_KEY"
    r"|(GLOO|RENDEZVOUS|ELASTIC)(_.*)?)"
)
_INTERFACE = "NCCL_SOCKET_IFNAME"  # likewise


def rank_variables(text: str) -> dict[str, str]:
    """The variables in `KEY=value,KEY=value`. Raises ValueError with a sentence that names the wrong one."""
    variables: dict[str, str] = {}
    for item in _NEXT.split(text) if text.strip() else []:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals:
            raise ValueError(f"write each variable as KEY=value, not {_shown(item)}")
        if problem := _problem_of(key, value):
            raise ValueError(f"{_shown(key)} {problem}")
        if key in variables:
            raise ValueError(f"{key} is there twice")
        variables[key] = value
    return variables


def is_of_launcher(key: str) -> bool:
    """Whether Horovod's launcher gives this variable to the ranks. Then `HORA_RANK_ENV` cannot."""
    return key == _INTERFACE or _OF_LAUNCHER.fullmatch(key) is not None


def _problem_of(key: str, value: str) -> str | None:
    if not _KEY.fullmatch(key):
        return "is not a name of capital letters, digits and underscores"
    if not key.startswith(_FAMILIES):
        return "is not allowed: names begin with NCCL_ or HOROVOD_"
    if _OF_LAUNCHER.fullmatch(key):
        return "is not allowed: Hora sets it for each rank"
    if key == _INTERFACE:
        return "is not allowed: HORA_NETWORK_INTERFACE chooses the interface"
    if _CONTROL.search(value):
        return "has a control character in its value"
    return None


def _shown(text: str) -> str:
    return repr(text[:80])
