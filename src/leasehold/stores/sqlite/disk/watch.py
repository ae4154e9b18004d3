"""Noticing that the file under an open store is not the one that stands at its path any more.

Deleted (`rm`), replaced (`mv` over it) or moved away with its folder, an open file goes on taking
commits that nobody will ever read. So a write looks at the path before each commit, and a read at
most a second after the last look. What was lost once stays lost, even if the file is moved back:
what others wrote meanwhile is unknown here. Opening the store again is for the application to
decide.

A file that was made, deleted and made again may get the same inode, but not while it is open here.
Closing the connections of a lost file harms nobody: SQLite deletes the write-ahead log by its name,
which may be another file's by then, but looks whether the database has moved before it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from leasehold.env import Env
from leasehold.errors import StoreLostError
from leasehold.stores.sqlite.disk import forks
from leasehold.stores.sqlite.disk.files import FileId, StoreFiles

LOOK_SECONDS: Final = 1.0
"""How old the last look may be for a read, and for the run folder."""

C = TypeVar("C", bound=apsw.Connection)


class FileWatch:
    """Which file was opened, and whether it is still in its place."""

    def __init__(self, files: StoreFiles, env: Env) -> None:
        self._files = files
        self._clock = env.clock
        self._database = os.fspath(files.database)
        self._run_folder = os.fspath(files.run_folder)
        self._file: FileId | None = None
        self._folder = _file_id(self._run_folder)
        self._lost: str | None = None
        self._looked_at = float("-inf")

    @property
    def file(self) -> FileId | None:
        """The file that was opened; None before the first connection."""
        return self._file

    def opened(self, connect: Callable[[], C]) -> C:
        """Open a connection, to the same file as all before; every connection comes from here."""
        expected = self._files.file_id()
        if self._file is not None:
            self.check()
        if expected is not None:
            forks.refuse_inherited(expected, self._files.database)
        connection = connect()
        if self._file is None:
            self._file = expected
        try:
            self.check()
        except StoreLostError:
            connection.close()
            raise
        return connection

    def check(self) -> None:
        """Raise StoreLostError unless the file, and now and then the folder, are in place."""
        if self._lost is None:
            # Asked for every commit, so not through pathlib, which takes longer than the kernel.
            try:
                status = os.stat(self._database)
            except OSError as error:
                self._lose(f"was deleted or moved away ({error.strerror})")
            else:
                if (status.st_dev, status.st_ino) != self._file:
                    self._lose("was replaced by another file")
            now = self._clock.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                self._looked_at = now
                if _file_id(self._run_folder) != self._folder:
                    self._lose("has lost its folder of locks, which was deleted or replaced")
        if self._lost is not None:
            raise StoreLostError(self._lost)

    def check_now_and_then(self) -> None:
        """The same, if the last look was a while ago."""
        if self._file is not None and (
            self._lost is not None or self._clock.monotonic() - self._looked_at >= LOOK_SECONDS
        ):
            self.check()

    def _lose(self, what: str) -> None:
        self._lost = self._lost or (
            f"{self._database} {what} while this process had it open: nothing more is read from "
            "or written to the file that was opened. Put the right file in its place while every "
            "process that uses it is stopped, then open the queue again"
        )


def _file_id(path: str) -> FileId | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
