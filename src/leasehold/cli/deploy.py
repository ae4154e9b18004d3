"""`deploy`: marks that say when a version came."""

from __future__ import annotations

from typing import Final

import click

from leasehold.cli.command import command, group
from leasehold.cli.exits import Exit
from leasehold.cli.output import Column, cell, emit, emit_one
from leasehold.cli.session import Session
from leasehold.documents.records import document_of

COLUMNS: Final = (
    Column("name", "VERSION", fit="keep"),
    Column("at", "AT", fit="keep"),
    Column("by", "BY", fit="cut"),
    Column("text", "WHAT", fit="cut"),
)


@group
def deploy() -> None:
    """Deploy marks: when versions were deployed."""


@command(of=deploy)
@click.argument("version")
@click.option("--text", default="", help="A short description.")
def mark(session: Session, version: str, text: str) -> None:
    """Mark that VERSION was deployed now. The same again changes nothing.

    The dashboard draws it on charts, and says which failures are new since then. Workers that are
    started with --app-version do it by themselves.

    \b
    Example:
      queuectl deploy mark v1.2 --text "new checkout"
    """
    made = session.new_queue.mark_deploy(version, text)
    emit_one(session, document_of(made), show=lambda: click.echo(f"marked {cell(made.name)}"))


@command("list", of=deploy)
def list_marks(session: Session) -> None:
    """List the marks, the oldest first.

    \b
    Example:
      queuectl deploy list
    """
    found = map(document_of, session.queue.deploys())
    emit(
        session,
        found,
        COLUMNS,
        nothing="no deploy is marked yet: mark one with `queuectl deploy mark VERSION`",
    )


@command(of=deploy)
@click.argument("version")
def forget(session: Session, version: str) -> None:
    """Remove a mark.

    \b
    Example:
      queuectl deploy forget v1.2
    """
    if not session.queue.forget_deploy(version):
        session.tell(f"no deploy of {version} is marked: see `queuectl deploy list`")
        raise click.exceptions.Exit(Exit.NOT_FOUND)
    emit_one(session, {"name": version}, show=lambda: click.echo(f"forgot {cell(version)}"))
