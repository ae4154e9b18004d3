"""How a command is declared: with the common options, and the session as its first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import click

from leasehold.cli.session import Session, common_options, pass_session

P = ParamSpec("P")

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def command(
    name: str | None = None, *, of: click.Group | None = None, **attributes: Any
) -> Callable[[Callable[Concatenate[Session, P], Any]], click.Command]:
    """Make a command of a function, on its own or in a group."""
    make = click.command if of is None else of.command

    def decorate(function: Callable[Concatenate[Session, P], Any]) -> click.Command:
        prepared = common_options(pass_session(function))
        made: click.Command = make(name, context_settings=CONTEXT, **attributes)(prepared)
        return made

    return decorate


def group(function: Callable[[], Any]) -> click.Group:
    """Make a group of commands of a function that does nothing but carry the help."""
    made: click.Group = click.group(context_settings=CONTEXT, no_args_is_help=True)(function)
    return made
