"""`backup`: a copy of the store, made while it is in use."""

from __future__ import annotations

import os

import click

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.output import emit_one
from leasehold.cli.session import Session

_BESIDE_A_STORE = ("-wal", "-shm", "-run")


class PlaceTaken(click.ClickException):
    """There is something at the place that was named."""

    exit_code = Exit.CONFLICT


@command()
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace an existing backup.")
def backup(session: Session, path: str, force: bool) -> None:
    """Write a consistent copy of the store to PATH while it is in use.

    An existing file is replaced only with --force, in one step, when the new copy is complete. A
    store in use, a link or a device is never replaced.

    \b
    Example:
      queuectl backup backups/jobs-monday.db
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise click.UsageError(f"the folder {folder} does not exist: create it first")
    _check_free(path, force=force)
    session.queue.backup(path, replace=force)
    emit_one(session, {"path": os.path.abspath(path), "size_bytes": os.path.getsize(path)})


def _check_free(path: str, *, force: bool) -> None:
    # A store in use may still have writes in these; another file under its name would get them.
    for ending in _BESIDE_A_STORE:
        if os.path.exists(path + ending):
            raise PlaceTaken(f"{path} is a store that is or was in use: choose another name")
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        # To take the place of a device or a link would break more than a backup.
        raise PlaceTaken(f"{path} is not a regular file, and only regular files are replaced")
    if os.path.exists(path) and not force:
        raise PlaceTaken(f"{path} already exists: choose another name, or replace it with --force")
