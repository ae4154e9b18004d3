"""Errors of the server or of the connection, as Leasehold's own errors.

Serialization failures and deadlocks never get here: `writing.database` retries those writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from leasehold.core.model.refusals import not_text
from leasehold.errors import (
    InvalidJobError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLostError,
    StoreUnavailableError,
)
from leasehold.stores.postgres.server.address import Address

TRY_AGAIN: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""Two writes got in each other's way, and this one was undone as a whole."""

NO_SUCH_VALUE: Final = (
    errors.CharacterNotInRepertoire,
    errors.UntranslatableCharacter,
    errors.NumericValueOutOfRange,
)
"""A value from the caller that no row can have: a NUL in a name to look up."""

LASTING: Final = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no such database",
    "no such user",
    "no pg_hba.conf entry",
    "permission denied",
    "is not permitted to log in",
)
"""What a server (or PgBouncer) says when it refuses everybody who comes with this URL. It sends no
code along. A server that speaks another language is taken to be only starting."""


OF_THE_CONNECTION: Final = (psycopg.OperationalError, errors.IdleInTransactionSessionTimeout)
"""What a lost connection raises, among others. (To psycopg, that timeout is an internal error.)"""


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and with it every uncommitted write."""
    # The server says why it ends a connection, or the connection ends without a message.
    return error.sqlstate is None or isinstance(
        error,
        (
            errors.AdminShutdown,
            errors.CrashShutdown,
            errors.IdleInTransactionSessionTimeout,
            errors.ConnectionException,
        ),
    )


def translate(error: Exception, address: Address) -> Exception:
    """The error for a caller of the store; Leasehold's own errors are returned unchanged."""
    where = address.shown
    if isinstance(error, UnicodeEncodeError):
        return not_text(error)
    if isinstance(error, PoolTimeout):
        return StoreBusyError(
            f"{where}: no connection was free within {address.pool_timeout_seconds:g} s; "
            "raise pool_size in the store's URL, or try again"
        )
    if isinstance(error, PoolClosed):
        return StoreClosedError(f"{where}: the store is closed")
    if not isinstance(error, psycopg.Error):
        return error
    told = str(error).strip() or type(error).__name__
    if isinstance(error, psycopg.DataError) and "NUL" in told:
        return InvalidJobError("text with a NUL character (\\x00) cannot be stored in PostgreSQL")
    if isinstance(error, NO_SUCH_VALUE):
        return InvalidJobError(f"PostgreSQL can neither store nor look up this value: {told}")
    if isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled)):
        return StoreBusyError(f"{where}: {told}; nothing was written, try again")
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        return StoreFullError(f"{where}: {told}; nothing was written")
    if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
        return StoreCorruptError(f"{where}: {told}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailableError(
            f"{where} takes no writes for now: it is a standby, or a primary that has become one "
            f"({told}). Nothing was written, try again"
        )
    if isinstance(error, OF_THE_CONNECTION):
        is_transient = not any(words in told for words in LASTING)
        why = _why_unavailable(error, told, where)
        return StoreUnavailableError(why, is_transient=is_transient)
    return _unexpected(error, told, where)


def _unexpected(error: psycopg.Error, told: str, where: str) -> StoreError:
    if isinstance(error, (errors.UndefinedTable, errors.InvalidSchemaName)):
        return StoreLostError(
            f"store {where} is gone: its tables were dropped, or its role may not use the schema "
            f"any more ({told.splitlines()[0]}). Nothing was written; restore it from a backup, or "
            "open it again for a new and empty one, and restart the process"
        )
    return StoreError(f"{where}: {told}")


def _why_unavailable(error: psycopg.Error, told: str, where: str) -> str:
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return (
            f"{where}: nothing was done in an open transaction for too long, and the server has "
            "ended it. Nothing of it is kept: begin it when everything else is done, and try again"
        )
    # The driver writes its question under the refusal, which has no full stop.
    told = " ".join(told.split()).replace(" Is the server", ". Is the server")
    if error.sqlstate is None and "FATAL: " in told:
        # A wrong password, a database that is not there, too many connections.
        told = told.rpartition("FATAL: ")[2].strip()
        return f"{where} refuses the connection: {told}"
    return f"{where} cannot be reached: {told}"


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Translate errors of the server into Leasehold's own."""
    try:
        yield
    except TRY_AGAIN:
        raise
    except (psycopg.Error, PoolTimeout, PoolClosed, UnicodeEncodeError) as error:
        raise translate(error, address) from error
