"""Confirmation before anything is destroyed: say how much, and ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from leasehold.cli.asking import is_agreed
from leasehold.cli.exits import Exit
from leasehold.cli.safe import safe
from leasehold.cli.session import Session, is_interactive

F = TypeVar("F", bound=Callable[..., Any])


class NotConfirmedError(click.ClickException):
    """Raised when there is no terminal to ask on, and no --yes."""

    exit_code = Exit.USAGE


def destructive(function: F) -> F:
    """Add --yes and --dry-run, to be handed to `agreed`."""
    yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    dry = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    return yes(dry(function))


def agreed(session: Session, what: str, *, yes: bool, dry_run: bool | None = None) -> bool:
    """Whether to go on. `what` says what will happen, with its count: "delete 12 jobs".

    Without a terminal there is no prompt, so it is refused unless --yes is given. `dry_run` is
    None for a command that has no such option.
    """
    if dry_run:
        session.tell(f"would {what}; nothing was changed")
        return False
    if yes:
        return True
    if not is_interactive():
        look = "" if dry_run is None else ", or --dry-run to preview"
        raise NotConfirmedError(f"this would {safe(what)}: pass --yes{look}")
    try:
        if is_agreed(f"Really {safe(what)}?"):
            return True
    except KeyboardInterrupt:
        session.tell("\ninterrupted: nothing was changed")
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
    session.tell("nothing was changed")
    raise click.exceptions.Exit(Exit.FAILURE)
