"""A server that dies between what it was asked for and its answer."""

from __future__ import annotations

import os
import signal

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Submitted
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.tables import replies
from leasehold.stores.tables.step import TableStep

DRAFTS = [Draft(id=f"job-{number}", task="t") for number in range(3)]
REQUEST = LeaseRequest(worker="w", limit=2, lease_seconds=3600)


def submit(store: SQLiteStore) -> list[Submitted | LeaseholdError]:
    return store.submit_once("submit", DRAFTS)


def exchange(store: SQLiteStore) -> Exchange:
    """Complete the first job, under the only version that it has had, and lease others."""
    job = store.get("job-0")
    assert job is not None
    return store.exchange_once(
        "exchange", [Settlement("job-0", job.lease_version, Complete(b"1"))], REQUEST
    )


def die_before_commit() -> None:
    """The reply is written, and what it is about; nothing of it is committed."""
    keep = replies.keep_reply

    def keep_and_die(step: TableStep, request_id: str, data: bytes) -> None:
        keep(step, request_id, data)
        _die()

    replies.keep_reply = keep_and_die


def die_after_commit() -> None:
    """All of it is durable, and nobody was told."""
    Database.after_commit = lambda *_: _die()  # type: ignore[method-assign]


def serve(path: str, verb: str, death: str) -> None:
    globals()[death]()
    globals()[verb](SQLiteStore(path))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
