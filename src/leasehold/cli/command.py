"""How a command is declared: with the common options, and the session as its first argument."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import Any, Concatenate, Final, NoReturn, ParamSpec

import click

from leasehold.cli.session import Session, common_options, pass_session

P = ParamSpec("P")

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

FORMS: Final = {
    "DURATION": "a number of seconds, or 1.5s, 10m, 2h30m, 7d",
    "TIME": "2026-01-31T12:00 (local; add Z for UTC), now, or from now: +10m, -2h",
}
"""The format of special values, by the name that help gives them."""

_UNBREAKABLE: Final = "\N{NON-BREAKING HYPHEN}"


class HelpFormatter(click.HelpFormatter):
    """Keeps names such as --reset-attempts on one line: click breaks lines at hyphens."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBREAKABLE))

    def write_dl(
        self, rows: Iterable[tuple[str, str | None]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        kept = [(name, (text or "").replace("-", _UNBREAKABLE)) for name, text in rows]
        super().write_dl(kept, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_UNBREAKABLE, "-")


class Context(click.Context):
    """The context of every command."""

    formatter_class = HelpFormatter


class Command(click.Command):
    """A command whose help says how durations and times are written, if it takes some."""

    context_class = Context

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        taken = {
            word
            for each in self.get_params(ctx)
            for word in (each.make_metavar(ctx) or "").replace("|", " ").split()
        }
        forms = [(name, form) for name, form in FORMS.items() if name in taken]
        if forms:
            formatter.write_paragraph()
            with formatter.indentation():
                for name, form in forms:
                    formatter.write_text(f"{name}: {form}.")
        super().format_epilog(ctx, formatter)


def command(
    name: str | None = None, *, of: click.Group | None = None, **attributes: Any
) -> Callable[[Callable[Concatenate[Session, P], Any]], click.Command]:
    """Make a command of a function, on its own or in a group."""
    make = click.command if of is None else of.command

    def decorate(function: Callable[Concatenate[Session, P], Any]) -> click.Command:
        prepared = common_options(pass_session(function))
        attributes.setdefault("cls", Command)
        made: click.Command = make(name, context_settings=CONTEXT, **attributes)(prepared)
        return made

    return decorate


ELSEWHERE: Final = {
    "submit": "enqueue", "push": "enqueue", "add": "enqueue", "set": "update", "rm": "delete",
    "ls": "list", "info": "show", "inspect": "show", "run": "worker", "start": "worker",
}  # fmt: skip
"""What people type who know other programs, and the command that does it here."""


class Group(click.Group):
    """A group that knows `help`, and names the commands that a mistyped one may mean."""

    context_class = Context

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
            other = ELSEWHERE.get(name)
            near = [other] if other in names else get_close_matches(name, names, n=3)
            raise click.UsageError(f"there is no command {name!r}{meant(near)}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with the whole first sentence of its help, where click would cut it."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=200))
            for name, command in found
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def meant(names: Collection[str]) -> str:
    """A question behind a mistyped name; nothing if no other one is like it."""
    if not names:
        return ""
    from leasehold.core.model.phrases import listed  # A quick command loads no core.

    return f": did you mean {listed(map(repr, names), 'or')}?"


def _help(ctx: click.Context) -> NoReturn:
    click.echo(ctx.get_help())
    ctx.exit()


def group(function: Callable[[], Any]) -> click.Group:
    """Make a group of commands of a function that does nothing but carry the help."""
    return click.group(cls=Group, context_settings=CONTEXT, no_args_is_help=True)(function)
