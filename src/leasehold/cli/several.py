"""Doing the same to several things that were named: what worked, what did not, and how to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.session import Session
from leasehold.errors import LeaseholdError, StoreError


def change_each(
    session: Session, names: Iterable[str], change: Callable[[str], Any]
) -> tuple[int, int, int]:
    """Make a change to each, and say what was refused: how many worked, how many not, the code.

    The code is 8 if some worked and some did not, and the first refusal's own if none worked.
    """
    changed, refusals = 0, list[LeaseholdError]()
    for name in dict.fromkeys(names):
        try:
            change(name)
            changed += 1
        except StoreError:
            raise  # Then it is the store that is in trouble, not this one.
        except LeaseholdError as error:
            session.tell(f"{name}: {error}")
            refusals.append(error)
    if not refusals:
        return changed, 0, Exit.OK
    return changed, len(refusals), Exit.PARTIAL if changed else exit_for(refusals[0])


def leave_with(code: int) -> None:
    """End the command with this code; what was printed stays."""
    if code:
        raise click.exceptions.Exit(code)
