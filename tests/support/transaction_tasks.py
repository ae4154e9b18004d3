"""Tasks with transactions of their own, for threads and for child processes."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from leasehold import Cancel, Retry, Snooze
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.worker.context import current_job

MAKE_ROWS = "CREATE TABLE app_row (id TEXT, pid INTEGER)"
ADD_ROW = "INSERT INTO app_row VALUES (?, ?)"
ROWS = "SELECT id FROM app_row"


class BrokenError(Exception):
    """Raised by tasks that are told to fail."""


def write(how: str = "") -> Any:
    """Write a row, and end in one way or another."""
    ctx = current_job()
    ctx.log("before")
    with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, os.getpid()))
        ctx.progress(1, 2)
        ctx.log("inside")
        if how == "raise":
            raise BrokenError
    return _end(how, connection)


async def write_async(how: str = "") -> Any:
    """The same, on an event loop."""
    ctx = current_job()
    ctx.log("before")
    async with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, os.getpid()))
        await asyncio.sleep(0)
        ctx.progress(1, 2)
        ctx.log("inside")
        if how == "raise":
            raise BrokenError
    return _end(how, connection)


def stand_inside() -> None:
    """Open its transaction, and never leave it."""
    ctx = current_job()
    with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, os.getpid()))
        while True:
            signal.pause()


def _end(how: str, connection: Any) -> Any:
    if how == "commit":
        connection.execute("COMMIT")
    if how == "roll back":
        connection.execute("ROLLBACK")
    if how == "close":
        connection.close()
    if how == "raise late":
        raise BrokenError
    ends = {
        "snooze": Snooze(3600),
        "retry": Retry(3600),
        "cancel": Cancel("enough"),
        "too large": "x" * PAYLOAD_BYTES_MAX,
        "no data": object(),
    }
    return ends.get(how, "done")
