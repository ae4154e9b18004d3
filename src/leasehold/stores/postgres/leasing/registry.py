"""The registry: workers, which enter it themselves, and consumers, which their leases enter."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.lives import Life, remote_life
from leasehold.core.model.records import WorkerInfo
from leasehold.stores.postgres.server.failures import translated
from leasehold.stores.postgres.server.life import SessionLife
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step

ADD: Final = """
    INSERT INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, false, $9)
    ON CONFLICT (id) DO UPDATE
    SET host = excluded.host, pid = excluded.pid, queues = excluded.queues, tasks = excluded.tasks,
        slots = excluded.slots, started_at = excluded.started_at,
        heartbeat_at = excluded.heartbeat_at, life = excluded.life, is_consumer = false,
        app_version = excluded.app_version
"""
# Guard: the entry is that life's own, and not one of its successor under the same name.
FORGET_WORKERS: Final = """
    DELETE FROM worker USING unnest($1::text[], $2::integer[]) AS over (id, life)
    WHERE worker.id = over.id AND worker.life = over.life
"""
# Guard: the entry is that consumer's own, and not one of its successor under the same name; nor
# does another consumer of that name hold a job.
FORGET_CONSUMER: Final = """
    DELETE FROM worker WHERE id = $1 AND is_consumer
        AND host IS NOT DISTINCT FROM $2 AND pid IS NOT DISTINCT FROM $3
        AND id NOT IN (SELECT worker FROM running)
"""
# Guard of the update: the entry is not a registered worker's.
NOTE_CONSUMER: Final = """
    INSERT INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, true, NULL)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
        queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
        heartbeat_at = excluded.heartbeat_at
    WHERE worker.is_consumer
"""


def register(database: Database, info: WorkerInfo) -> SessionLife:
    """Enter a worker; it is in the registry until its life is closed, or proved to be over."""
    # Held before it is in the registry, so that it is never seen there with its lock free.
    with translated(database.address):
        life = Life(info.id, database.session.begin_life())

    def leave() -> None:
        _leave(database, life)
        database.session.let_go(life.number)

    try:
        _enter(database, info, life)
    except BaseException:
        database.session.let_go(life.number)
        raise
    database.lives.begin(life)
    return SessionLife(database.session.fileno, leave)


def register_remote(database: Database, info: WorkerInfo, *, is_entered: bool) -> SessionLife:
    """Enter a worker that is known by its own words only."""
    life = remote_life(info)
    if not is_entered:
        _enter(database, info, life)
    return SessionLife(lambda: None, lambda: _leave(database, life))


def _enter(database: Database, info: WorkerInfo, life: Life) -> None:
    def enter(step: Step) -> None:
        served = (_document(info.queues), _document(info.tasks))
        row = (info.id, info.host, info.pid, *served, info.slots, step.now, life.number)
        step.execute(ADD, (*row, info.app_version))

    database.write(enter)


def _leave(database: Database, life: Life) -> None:
    database.write(lambda step: step.execute(FORGET_WORKERS, ([life.worker], [life.number])))
    database.lives.end(life)


def note_consumer(step: Step, request: LeaseRequest) -> None:
    """Enter the leasing worker as a consumer, or note that it still is one, or is one no more."""
    consumer = request.consumer
    assert consumer is not None
    if not consumer.queues:
        step.execute(FORGET_CONSUMER, (request.worker, consumer.host, consumer.pid))
        return
    if request.limit <= 0:
        return
    served = (_document(consumer.queues), _document(request.tasks or ()))
    row = (request.worker, consumer.host, consumer.pid, *served, request.limit)
    step.execute(NOTE_CONSUMER, (*row, step.now))


def _document(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()
