"""One block of `with connection.transaction()`, which Ctrl-C never leaves open.

psycopg's own is cut in two by an interrupt: the server has begun a transaction of which psycopg
knows nothing, and the application's next blocks would be parts of it that nobody commits.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, suppress
from types import TracebackType

import psycopg
from psycopg.pq import TransactionStatus

from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.connection import RawConnection

Inner = AbstractContextManager[psycopg.Transaction]


class Block:
    """Begins and ends psycopg's own block inside the shield."""

    __slots__ = ("_part",)

    def __init__(self, raw: RawConnection, inner: Inner) -> None:
        self._part = _Part(raw, inner)

    def __enter__(self) -> psycopg.Transaction:
        try:
            with SHIELD:
                return self._part.begin()
        except BaseException:
            with SHIELD:
                self._part.end(*sys.exc_info())
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        with SHIELD:
            return self._part.end(kind, error, trace)


class _Part:
    """It rolls an abandoned block back: an interrupt may strike in the very call of __exit__."""

    _is_open = False  # Also where an interrupt strikes before the end of __init__.
    _is_outermost = False

    def __init__(self, raw: RawConnection, inner: Inner) -> None:
        self._raw = raw
        self._inner = inner

    def begin(self) -> psycopg.Transaction:
        self._is_outermost = self._raw.info.transaction_status is TransactionStatus.IDLE
        self._is_open = True
        return self._inner.__enter__()

    def end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if not self._is_open:
            return None
        self._is_open = False
        try:
            return self._inner.__exit__(kind, error, trace)
        finally:
            # An interrupt inside psycopg may have left it in a state in which it cannot roll back.
            idle = self._raw.info.transaction_status is TransactionStatus.IDLE
            if self._is_outermost and not idle:
                self._raw.close()

    def __del__(self) -> None:
        if self._is_open:
            with SHIELD, suppress(psycopg.Error, GeneratorExit):
                self.end(GeneratorExit, GeneratorExit(), None)
