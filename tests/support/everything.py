"""A store that has at least one row in every table: an image to be copied, damaged and opened."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from leasehold.core.model.breaker import Breaker
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.life import LockedLife

QUEUES: Final = ("default", "keyed", "other")
ENDED: Final = frozenset({"done", "dead", "stopped"})
LIVE: Final = frozenset(
    {
        "failing", "held", "held-too", "plain", "tagged", "urgent", "later", "key-1", "key-2",
        "waits", "waits-too", "perishable", "late key",
    }
)  # fmt: skip
"""The jobs that a worker has yet to run."""
NEEDS: Final = {"waits": {"plain"}, "waits-too": {"plain", "tagged"}}
"""Which of them depend on which."""
PRUNED: Final = "pruned"
"""A job that is in the archive only."""

_PRUNE_ALL: Final = RetentionPolicy(
    completed_seconds=0,
    cancelled_seconds=0,
    dead_seconds=None,
    archive_seconds=None,
    audit_seconds=50,
)
_NOW: Final = Scope(force=True)
# What is there only while a long write is cut into several is written here by hand.
BETWEEN_WRITES: Final = (
    "INSERT INTO rescoring SELECT id, 0, 0, 0 FROM lane WHERE queue = 'default' LIMIT 1",
    "INSERT INTO inheriting SELECT seq, 0, 0 FROM job WHERE id = 'waits'",
    "INSERT INTO resting VALUES ('keyed', 'k', 1)",
    "INSERT INTO ended_dependents SELECT seq, 0 FROM finished ORDER BY seq LIMIT 1",
    "INSERT INTO resolving (seq) SELECT seq FROM finished ORDER BY seq LIMIT 1",
)


def open_store(path: Path, clock: ManualClock) -> SQLiteStore:
    return SQLiteStore(path, env=Env(clock=clock), durability="normal")


def make_everything(path: Path, clock: ManualClock) -> None:
    """Jobs of every kind in every status, with all that goes with them."""
    store = open_store(path, clock)
    store.changes()
    store.create_queue("keyed", QueueConfig(key_concurrency=1), actor="me")
    store.create_queue(
        "other", QueueConfig(rate_per_second=1, max_depth=100, aging_factor=60.0), actor="me"
    )
    store.set_setting("max_retries", 2, actor="me")
    store.pin("deploy", "v1", "first", actor="me")
    store.create_token(TokenDraft(name="ann", roles=("admin",)), "digest", actor="me")
    store.signing_key()
    store.submit([Draft(id="planned", task="t", queue="other")])
    plan = store.plan_operation(CancelAll(), JobFilter(ids=("planned",)))
    store.begin_operation(OperationDraft(id="operation", plan=plan), actor="me")
    store.advance_operation("operation")
    schedule = ScheduleDraft(name="tick", timing=Every(60), job=Draft(id="x", task="tick"))
    store.set_schedule(schedule, actor="me")
    _end_some(store, clock)
    _hold_some(store, clock)
    _wait_some(store, clock)
    store.close()
    db = apsw.Connection(str(path))
    for statement in BETWEEN_WRITES:
        db.execute(statement)
    db.close()


def _end_some(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id=PRUNED, task="t", idempotency_key="pruned", metadata={"a": 1})])
    _settle(store, Complete(b'"result"'))
    clock.advance(100)
    report = store.prune(_PRUNE_ALL, scope=_NOW, actor="me")
    while report.more:
        report = store.prune(_PRUNE_ALL, scope=_NOW, run=report.run, actor="me")
    store.submit([Draft(id="done", task="t", idempotency_key="done", result_ttl_seconds=1e6)])
    _settle(store, Complete(b'"result"', b'{"note": 1}'))
    store.submit([Draft(id="dead", task="t", max_retries=0, metadata={"a": 1})])
    _settle(store, Fail(JobError("E", "no", "trace")))
    store.submit([Draft(id="stopped", task="t")])
    store.cancel(["stopped"], reason="so", actor="me")
    store.submit([Draft(id="failing", task="shaky", retry=Constant(5))])
    _settle(store, Fail(JobError("E", "no"), breaker=Breaker(failures=1, pause_seconds=5)))
    clock.advance(6)


def _settle(store: SQLiteStore, outcome: Complete | Fail) -> None:
    for lease in store.exchange(request=LeaseRequest(worker="w", limit=5)).leases:
        store.exchange_once(
            f"settle {lease.job_id}", [Settlement(lease.job_id, lease.version, outcome)]
        )


def _hold_some(store: SQLiteStore, clock: ManualClock) -> None:
    life = store.register_worker(
        WorkerInfo(
            id="lost", host="h", pid=1, queues=QUEUES, slots=2, started_at=clock.now(),
            heartbeat_at=clock.now(), app_version="v1.2",
        )
    )  # fmt: skip
    store.submit([Draft(id="held", task="t", metadata={"a": 1}), Draft(id="held-too", task="t")])
    leases = store.exchange(request=LeaseRequest(worker="lost", limit=2, lease_seconds=30)).leases
    for lease in leases:
        store.append_log(lease.job_id, lease.version, [LogLine(clock.now(), "a line")])
        store.report_progress(lease.job_id, lease.version, b'{"done": 1}')
    assert isinstance(life, LockedLife)
    life.let_go()


def _wait_some(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit_once(
        "submit",
        [
            Draft(id="plain", task="t", priority=10),
            Draft(id="tagged", task="t", metadata={"a": 1}, parent_id="group", retry=Constant(1)),
            Draft(id="urgent", task="t", deadline=clock.now().replace(year=2999)),
            Draft(id="later", task="t", delay_seconds=20),
            Draft(id="key-1", task="t", queue="keyed", limit_key="k"),
            Draft(id="key-2", task="t", queue="keyed", limit_key="k"),
            Draft(id="waits", task="t", depends_on=("plain",), on_dependency_failure="ignore"),
            Draft(id="waits-too", task="t", depends_on=("plain", "tagged"), priority=90),
            Draft(id="perishable", task="t", start_within_seconds=10**6, timeout_seconds=60),
            Draft(id="late key", task="t", queue="other", limit_key="k", lease_seconds=60),
        ],
    )
