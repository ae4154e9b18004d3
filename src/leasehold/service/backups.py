"""Backups of the store that is served, in a folder that was named when the service started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from leasehold.core.contract.local_store import local_part
from leasehold.errors import BackupExistsError, UnsupportedError
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.operation import Answer, Request, operation

BackupName = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*-(wal|shm|journal|run)$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)",
        description="a file's name such as monday.db: letters, digits, dots, dashes and "
        "underscores, 100 at most, of which the first is a letter or a digit; not one that ends "
        "as the files beside a store do, in -wal, -shm, -journal or -run",
    ),
]
"""A file's name and no path: a caller can name no file outside of the folder."""


class MakeBackup(Request):
    """A new file in the service's folder for backups, such as `monday.db`."""

    name: BackupName


class Backup(Answer):
    """A copy that is whole."""

    name: str
    size_bytes: int


class Backups(ApiPart):
    """The operation for copies."""

    backup_folder: Path | None = None
    """Where they go; None if no folder is named, and there are none."""

    @operation("POST", "/backups", "admin", status=201)
    def backup(self, caller: Caller, request: MakeBackup) -> Backup:
        """Write a consistent copy of the store on the server's machine while it is in use.

        It needs a SQLite store, and a service that was started with `--backup-dir`. A backup holds
        all data, so it never leaves that directory. It replaces no file, and contains no blobs.
        """
        caller.check_unscoped()
        if self.backup_folder is None:
            raise UnsupportedError(
                "this service makes no backups: start it with --backup-dir, or run `queuectl "
                "backup` where the store lives"
            )
        target = self.backup_folder / request.name
        if target.exists():
            raise BackupExistsError(
                f"backup {request.name!r} already exists, and is never replaced: choose another "
                "name"
            )
        local_part(self.store, "a backup").backup(str(target), actor=caller.actor)
        return Backup(name=request.name, size_bytes=target.stat().st_size)
