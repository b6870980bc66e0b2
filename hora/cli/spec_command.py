"""Commands whose options are fields of the spec, such as `hora submit`. Part of the command line."""

from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand


class SpecCommand(TyperCommand):
    """A command with fields of the spec as options. An option without its own help has the field's description.

    The spec takes long to import, so the description is read only when the help is shown.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, for `--help`."""
        self._describe_options()
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """List what may come next, which a shell shows with its help."""
        self._describe_options()
        return super().shell_complete(ctx, incomplete)

    def _describe_options(self) -> None:
        for option in self.params:
            if option.param_type_name == "option" and not option.help:  # type: ignore[attr-defined]
                option.help = _description(str(option.name))  # type: ignore[attr-defined]


def spec_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a command that are fields of the spec, by the field's name.

    A command calls it first of all with `locals()`, which are its parameters then.
    """
    from jobs.model.spec import Spec

    return {name: value for name, value in parameters.items() if name in Spec.model_fields}


def check_is_given(file: str | None, dataset: str | None, changes: list[str]) -> None:
    """A spec needs a file, `--dataset` or `--set`. Raises `BadParameter` without any of them."""
    if file is None and dataset is None and not changes:
        raise typer.BadParameter("give a FILE, or at least --dataset")


def _description(name: str) -> str:
    """The description of a field of the spec. If a string may stand for its object: of the field that is the string."""
    from jobs.model.descriptions import without_links
    from jobs.model.problems import fields_at
    from jobs.model.spec import SHORTHAND, Spec

    field = fields_at([name], Spec)[SHORTHAND[name]] if name in SHORTHAND else Spec.model_fields[name]
    return without_links(field.description or "")
