"""Leaving a command with an exit code, after all output."""

from __future__ import annotations

import click


def leave_with(code: int) -> None:
    """End the command with this code; the printed text stays."""
    if code:
        raise click.exceptions.Exit(code)
