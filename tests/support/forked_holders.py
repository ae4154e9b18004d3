"""What the processes do that fork while they have a PostgreSQL store open, and are killed then."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from leasehold.core.model.job import Draft
from leasehold.core.model.records import WorkerInfo
from leasehold.env import SYSTEM
from leasehold.stores.postgres import PostgresStore
from support.acknowledged import Acknowledged
from support.victims import tell


def hold_a_transaction_and_fork(url: str, tell_fd: int) -> None:
    """Have the store's turn in an application's transaction, and a child beside. Tells `S pid`."""
    store = PostgresStore(url)
    store.subscribe(_Deaf())
    own = store.connect()
    with own:
        store.submit_within(own, [Draft(id="never", task="t", idempotency_key="k")])
        _fork(tell_fd, lambda: None)


def register_and_fork(url: str, tell_fd: int) -> None:
    """Be a worker, with a child beside that uses the store, too."""
    store = PostgresStore(url)
    now = SYSTEM.now()
    store.register_worker(
        WorkerInfo(
            id="w", host="h", pid=os.getpid(), queues=("default",), slots=1,
            started_at=now, heartbeat_at=now,
        )
    )  # fmt: skip
    _fork(tell_fd, lambda: store.submit([Draft(id="child", task="t")]))


def _fork(tell_fd: int, act: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            act()
            tell(tell_fd, [f"S {os.getpid()}"])
            signal.pause()
        finally:
            os._exit(1)
    signal.pause()


def the_child(told: Acknowledged) -> int:
    """The process that was forked."""
    assert told.listen()
    (pid,) = told.submitted
    return int(pid)


class _Deaf:
    def on_ready(self) -> None: ...
    def on_ended(self, _: object = None) -> None: ...
    def on_cancel_requested(self, _: object = None) -> None: ...
