"""SQLite's errors in the words of the store contract."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from leasehold.errors import (
    InvalidJobError,
    LeaseholdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.holder import busy


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
                    f"others have written to {path} since this transaction began to read: begin it "
                    "with connection.transaction(), which waits for its turn, and try again"
                )
            return busy(path)
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            return StoreUnavailableError(
                f"cannot open or write {path} ({error}): check that the file and its folder "
                "exist and are writable by this user"
            )
        case apsw.IOError() if StoreFiles(path).disk_is_full():
            # SQLite has no word of its own for a log's index that it cannot lengthen.
            return StoreFullError(f"the disk that holds {path} is full: free some space")
        case apsw.IOError():
            return StoreUnavailableError(f"reading or writing {path} failed: {error}")
        case _:
            return StoreError(f"SQLite refused an operation on {path}: {error}")


def of_files(error: OSError, path: Path) -> StoreError:
    """The StoreError for what the system refused about the files beside a store."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError(f"the disk that holds {path} is full: free some space")
    return StoreUnavailableError(f"the files beside {path} cannot be written: {error}")


def not_text(error: UnicodeEncodeError) -> LeaseholdError:
    """The error for a value that SQLite cannot even be asked about."""
    return InvalidJobError(f"only UTF-8 text can be stored or looked for, not {error.object!r}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise whatever SQLite raises inside as one of our own errors."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except UnicodeEncodeError as error:
        raise not_text(error) from error
