"""Entering a worker into the registry, together with its sign of life."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.model.records import WorkerInfo
from leasehold.stores.postgres.leasing.recover import FORGET_WORKERS
from leasehold.stores.postgres.server.failures import translated
from leasehold.stores.postgres.server.life import SessionLife
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step

ADD: Final = """
    INSERT INTO worker VALUES ($1, $2, $3, $4, $5, $6, $6, $7) ON CONFLICT (id) DO UPDATE
    SET host = excluded.host, pid = excluded.pid, queues = excluded.queues, slots = excluded.slots,
        started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at, life = excluded.life
"""


def register(database: Database, info: WorkerInfo) -> SessionLife:
    """Enter a worker; it is in the registry until its life is closed, or proved to be over."""
    # Held before it is in the registry, so that nobody ever sees it there with its lock free.
    with translated(database.address):
        life = database.session.begin_life()

    def enter(step: Step) -> None:
        queues = msgspec.json.encode(info.queues).decode()
        step.execute(ADD, (info.id, info.host, info.pid, queues, info.slots, step.now, life))

    def leave() -> None:
        database.write(lambda step: step.execute(FORGET_WORKERS, ([info.id],)))
        database.session.let_go(life)

    try:
        database.write(enter)
    except BaseException:
        database.session.let_go(life)
        raise
    return SessionLife(database.session.fileno, leave)
