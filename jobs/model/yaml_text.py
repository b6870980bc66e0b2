"""Reads YAML that people wrote: specs and studies. It has JSON's types, and cannot expand to gigabytes. Pure.

Called by `jobs.model.spec` and the command line.
"""

import json
import math
import re
from typing import Any

import yaml

from jobs.model.problems import FieldProblem, InvalidSpec

_MOST_CHARACTERS = 1024 * 1024  # of a document when all its aliases are written out


def load_yaml(text: str | bytes) -> Any:
    """The value of YAML text, if JSON can hold it too. Raises `InvalidSpec`."""
    try:
        document = yaml.load(text, _YamlLoader)  # noqa: S506 - a safe loader
        json.dumps(document)
    except _YAML_ERRORS as error:
        raise InvalidSpec([FieldProblem("", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    return document


class _YamlLoader(yaml.SafeLoader):
    """PyYAML's YAML 1.1, but with JSON's types: 1e-3 is a number and 2030-01-01 is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> yaml.Node | None:
        """The document before its values are built. Aliases of aliases, which may expand to gigabytes, are refused."""
        node = super().get_single_node()
        if node is not None and _characters(node, {}) > _MOST_CHARACTERS:
            raise yaml.YAMLError("it is larger than 1 MiB when all aliases are written out")
        return node


def _characters(node: yaml.Node, lengths: dict[int, float]) -> float:
    """The approximate length of a document when all aliases are written out. Infinite if it contains itself."""
    if id(node) not in lengths:
        lengths[id(node)] = math.inf
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        inner = len(parts) if isinstance(parts, str) else sum(_characters(part, lengths) for part in parts)
        lengths[id(node)] = 1 + inner
    return lengths[id(node)]


_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)
# PyYAML's constructors trust an explicit tag: `!!int ""` raises an IndexError, `!!bool x` a KeyError.
_YAML_ERRORS = (
    yaml.YAMLError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
