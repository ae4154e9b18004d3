"""`migrate-store`: everything from one store to another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.confirm import agreed
from leasehold.cli.output import Column, emit_one, print_table
from leasehold.cli.session import Session, actor, check_there
from leasehold.core.model.phrases import counted, listed
from leasehold.env import SYSTEM

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store

NAMED_MAX: Final = 10
COLUMNS: Final = (
    Column("name", "TABLE"),
    Column("rows", "ROWS", right=True),
    Column("checksum", "SHA-256, IN BOTH", show=lambda text: text[:16]),
)


@command("migrate-store")
@click.argument("source")
@click.argument("target", required=False)
@click.option(
    "--running",
    type=click.Choice(["refuse", "copy"]),
    default="refuse",
    help="With live workers or running jobs in SOURCE: refuse, or move these jobs as they are.",
)
@click.option("--reopen", is_flag=True, help="Abandon the move: SOURCE accepts writes again.")
@click.option("--force", is_flag=True, help="Reopen SOURCE even though TARGET replaced it.")
@click.option("--yes", "-y", is_flag=True, help="Reopen without asking.")
def migrate_store(
    session: Session,
    source: str,
    target: str | None,
    *,
    running: Any,
    reopen: bool,
    force: bool,
    yes: bool,
) -> None:
    """Move everything from SOURCE to TARGET: from SQLite to PostgreSQL, and back.

    Stop the workers, run this, then change the store's URL everywhere. From the start SOURCE
    accepts no writes: programs that submit to it or work on it get an error that says where it
    went. It keeps all its data, and can still be read. TARGET must be empty; it accepts writes when
    everything was copied and verified.

    Large payloads and results are copied from SOURCE's default place (the folder beside a SQLite
    file, the PostgreSQL database) to TARGET's. Those in a place that you name (--blobs) stay
    there: keep naming it.

    If this is killed, run it again: it continues.

    A SOURCE with running jobs, for example of killed workers, is refused; with --running copy they
    are moved as they are, and run again when their leases end.

    --reopen gives up an unfinished move. After a complete move, go back by moving TARGET into a new
    store. --reopen --force is for a TARGET that will not be used any more: its new jobs are lost.

    \b
    Examples:
      queuectl migrate-store jobs.db postgresql://me@db/jobs
      queuectl migrate-store postgresql://me@db/jobs sqlite:///jobs.db
      queuectl migrate-store --reopen jobs.db
    """
    from leasehold.blobs.moving import move_blobs
    from leasehold.core.rules import moving

    check_there(source)
    if reopen:
        if target is not None:
            raise click.UsageError("--reopen takes SOURCE alone")
        _reopen(session, source, force=force, yes=yes)
        return
    if force:
        raise click.UsageError("--force requires --reopen")
    if target is None:
        raise click.UsageError("name two stores: migrate-store SOURCE TARGET")
    with _opened(source) as old, _opened(target) as new:
        progress = _progress()
        moved = moving.move(
            old,
            new,
            env=SYSTEM,
            actor=actor(),
            running=running,
            progress=progress,
            besides=lambda: move_blobs(old, new, partial(progress, "copy", "blobs")),
        )

    def show() -> None:
        tables = [{"name": each.name, "rows": each.rows, "checksum": each.checksum}
                  for each in moved.tables if each.rows]  # fmt: skip
        if moved.tables:
            print_table(session, tables, COLUMNS, "the source was empty")

    from leasehold.documents.records import document_of

    emit_one(session, document_of(moved), show=show)
    done = "moved" if moved.tables else "this move was completed before,"
    session.tell(f"{done} to {moved.target}; {moved.source} accepts no more writes")
    if moved.blobs:
        session.tell(f"{moved.blobs:,} large payloads and results were copied, too")
    if moved.running:
        session.tell(f"{counted(moved.running, 'running job')} will run again after the lease ends")
    if moved.not_moved:
        session.tell(
            f"not moved: {counted(len(moved.not_moved), 'table')} of your own in {source} "
            f"({listed(moved.not_moved[:NAMED_MAX])}); copy "
            f"{'it' if len(moved.not_moved) == 1 else 'them'} yourself"
        )
    session.tell("now change the URL of the store wherever it is used, and start the workers")


def _reopen(session: Session, source: str, *, force: bool, yes: bool) -> None:
    from leasehold.core.rules import moving

    with _opened(source) as store:
        rows = moving.movable(store).row_store()
        seal = rows.seal()
        if seal is None:
            session.tell(f"{rows.shown} already accepts writes: nothing to do")
            return
        what = f"let {rows.shown} accept writes again, and give up its move to {seal.other}"
        if seal.is_complete and force:
            what = f"let {rows.shown} accept writes again, while {seal.other} has all its jobs too"
        # A move that is refused is not asked about.
        is_refused = seal.is_target or (seal.is_complete and not force)
        if is_refused or agreed(session, what, yes=yes):
            moving.reopen(store, actor=actor(), force=force)
            session.tell(f"{rows.shown} accepts writes again")


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    from leasehold.connect import connect

    store = connect(url)
    try:
        yield store
    finally:
        store.close()


def _progress() -> Any:
    """The progress, on standard error: in one line of a terminal, elsewhere a line for each table
    that is verified.
    """
    if not sys.stderr.isatty():
        return lambda phase, table, rows: (
            click.echo(f"verified {table}: {counted(rows, 'row')}", err=True)
            if phase == "verify" and rows
            else None
        )

    def tell(phase: str, table: str, rows: int) -> None:
        click.echo(f"\r\x1b[K{phase} {table}: {counted(rows, 'row')}", err=True, nl=False)

    return tell
