"""How a command is declared: with the common options, and the session as its first argument."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Concatenate, NoReturn, ParamSpec

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


class Group(click.Group):
    """A group that knows `help`, and names the commands that a mistyped one may mean."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        names = self.list_commands(ctx)
        if name == "help" and name not in names and not ctx.resilient_parsing:
            if not args[1:]:
                _help(ctx)
            args = [*args[1:], "--help"]
            name = args[0]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = get_close_matches(name, names, n=3)
            if not near:
                raise
            from leasehold.core.model.phrases import listed  # A quick command loads no core.

            guess = f"No such command {name!r}. Did you mean {listed(map(repr, near), 'or')}?"
            raise click.UsageError(guess, ctx) from None


def _help(ctx: click.Context) -> NoReturn:
    click.echo(ctx.get_help())
    ctx.exit()


def group(function: Callable[[], Any]) -> click.Group:
    """Make a group of commands of a function that does nothing but carry the help."""
    return click.group(cls=Group, context_settings=CONTEXT, no_args_is_help=True)(function)
