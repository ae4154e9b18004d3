"""Errors of the system and of SQLite, as errors of the store contract."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from leasehold.core.model.refusals import not_text
from leasehold.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.holder import busy

_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


def is_passing(error: OSError) -> bool:
    """Whether it is a temporary limit of this process or machine, not a fault of the files."""
    return error.errno in _NO_MORE_FILES


def of_files(error: OSError, path: Path) -> StoreError:
    """The StoreError for the system's refusal of an operation on a store's files."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError(f"the disk that holds {path} is full: free some space")
    if is_passing(error):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        whose = f"this process (limit {limit})" if error.errno == errno.EMFILE else "this machine"
        return StoreUnavailableError(
            f"{path} cannot be used for now: {whose} has too many open files. Close some, or raise "
            "the limit (ulimit -n, LimitNOFILE=), and try again"
        )
    return StoreUnavailableError(
        f"the files beside {path} cannot be opened or written: {error}", is_transient=False
    )


def no_more_files() -> OSError | None:
    """Why this process can open no more files; None if it can.

    SQLite only reports that it could not open a file.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if is_passing(error) else None
    return None


def translate(error: apsw.Error, path: Path) -> StoreError:
    """The StoreError that says what happened and what to do."""
    match error:
        case apsw.FullError():
            return StoreFullError(f"the disk that holds {path} is full: free some space")
        case apsw.NotADBError():
            return StoreVersionError(f"{path} is not a SQLite database, so not a Leasehold store")
        case apsw.CorruptError():
            return StoreCorruptError(
                f"{path} is damaged ({error}): stop all workers and restore the latest backup"
            )
        case apsw.BusyError() | apsw.LockedError():
            if getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT:
                return StoreUnavailableError(
                    f"{path} was changed by another transaction since this one began to read: "
                    "begin it with connection.transaction(), which takes the write lock, and try "
                    "again"
                )
            return busy(path)
        case apsw.CantOpenError() if (refused := no_more_files()) is not None:
            return of_files(refused, path)
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            return StoreUnavailableError(
                f"cannot open or write {path} ({error}): check that the file and its folder "
                "exist and are writable by this user",
                is_transient=False,
            )
        case apsw.IOError() if StoreFiles(path).disk_is_full():
            # SQLite has no specific error for a log index that it cannot extend.
            return StoreFullError(f"the disk that holds {path} is full: free some space")
        case apsw.IOError():
            return StoreUnavailableError(
                f"reading or writing {path} failed: {error}", is_transient=False
            )
        case _:
            return StoreError(f"SQLite refused an operation on {path}: {error}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate SQLite's errors inside this block into Leasehold's own."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        if not is_passing(error):
            raise
        raise of_files(error, path) from error
    except UnicodeEncodeError as error:
        raise not_text(error) from error
