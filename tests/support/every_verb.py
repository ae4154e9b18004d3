"""Every verb of the store contract once, in an order in which each has something to do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from operator import methodcaller
from typing import Any

from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.env import EPOCH, ManualClock

Verb = Callable[[Any], Any]
Script = Generator[tuple[str, Verb], Any, None]
"""Names of verbs and calls of them, sent what each call answered."""

_WORKER = WorkerInfo(
    id="w", host="h", pid=1, queues=("default",), slots=1, started_at=EPOCH, heartbeat_at=EPOCH
)
_REQUEST = LeaseRequest(worker="w", limit=1, lease_seconds=60)
_PRUNE_ALL = RetentionPolicy(completed_seconds=0, cancelled_seconds=0, archive_seconds=None)


def every_verb(clock: ManualClock) -> Script:
    """All of them, with calls that a store over HTTP knows as well."""
    feed = yield "changes", lambda store: store.changes()
    yield from _rules()
    yield from _work(clock)
    yield from _orders(clock)
    yield from every_look()
    yield "changes", lambda store: store.changes(feed.cursor)


def _rules() -> Script:
    """What people set up."""
    limited = QueueConfig(max_concurrency=2)
    yield "create_queue", lambda store: store.create_queue("limited", limited, actor="me")
    yield "update_queue", lambda store: store.update_queue("limited", {"max_depth": 9}, actor="me")
    yield "set_setting", lambda store: store.set_setting("max_retries", 3, actor="me")
    yield "unset_setting", lambda store: store.unset_setting("max_retries", actor="me")
    yield "pin", lambda store: store.pin("deploy", "v1", "first", actor="me")
    yield "pins", lambda store: store.pins("deploy")
    yield "unpin", lambda store: store.unpin("deploy", "v1", actor="me")
    token = TokenDraft(name="ann", roles=("admin",))
    made = yield "create_token", lambda store: store.create_token(token, "digest", actor="me")
    own = [Draft(id="own", task="t", queue="own")]
    yield "submit_as", lambda store: store.submit_as(made, "digest", own)
    yield "end_session", lambda store: store.end_session("ann", "session")
    yield "is_session_over", lambda store: store.is_session_over("ann", "session")
    yield "revoke_token", lambda store: store.revoke_token("ann", actor="me")
    tick = ScheduleDraft(
        name="tick", timing=Every(60), job=Draft(id="tick", task="t", retry=Constant(5))
    )
    yield "set_schedule", lambda store: store.set_schedule(tick, actor="me")
    yield "run_schedule", lambda store: store.run_schedule("tick", job_id="now", actor="me")
    for paused in (True, False):
        yield "pause_schedule", methodcaller("pause_schedule", "tick", paused=paused, actor="me")


def _work(clock: ManualClock) -> Script:
    """What producers and holders do."""
    yield "submit", lambda store: store.submit([Draft(id="a", task="t", retry=Constant(5))])
    limited = [Draft(id="b", task="t", queue="limited"), Draft(id="c", task="t", depends_on=("a",))]
    yield "submit", lambda store: store.submit(limited)
    later = [Draft(id="d", task="t", delay_seconds=30)]
    yield "submit_once", lambda store: store.submit_once("request", later)
    yield "register_worker", lambda store: store.register_worker(_WORKER, is_remote=True)
    (lease,) = (yield "exchange", lambda store: store.exchange(request=_REQUEST)).leases
    at = (lease.job_id, lease.version)
    yield "renew", lambda store: store.renew("w", [Renewal(*at, 60)])
    yield "report_progress", lambda store: store.report_progress(*at, b'{"done": 1}')
    yield "append_log", lambda store: store.append_log(*at, [LogLine(EPOCH, "line")])
    told = {"worker": "w", "version": lease.version, "message": "m"}
    yield "tell", lambda store: store.tell(lease.job_id, Event.HEARTBEAT_FAILED, **told)
    failed = Fail(JobError("OSError", "no luck"))
    again = yield "exchange", lambda store: store.exchange([Settlement(*at, failed)], _REQUEST)
    done = [Settlement(each.job_id, each.version, Complete(b"1")) for each in again.leases]
    yield "exchange_once", lambda store: store.exchange_once("settle", done)
    clock.advance(6)
    yield "promote", lambda store: store.promote()
    (lease,) = (yield "exchange", lambda store: store.exchange(request=_REQUEST)).leases
    taken = {"reset_attempts": True, "reason": "r", "actor": "me"}
    one = (lease.job_id, lease.version)
    yield "recover_one", lambda store: store.recover_one(*one, **taken)
    yield "exchange", lambda store: store.exchange(request=_REQUEST)
    clock.advance(100)
    yield "recover", lambda store: store.recover(actor="me")
    yield "fire_schedules", lambda store: store.fire_schedules()


def _orders(clock: ManualClock) -> Script:
    """What people order."""
    yield "reprioritize", lambda store: store.reprioritize("b", 90, actor="me")
    yield "cancel", lambda store: store.cancel(["b", "d"], reason="r", actor="me")
    yield "replay", lambda store: store.replay(["b"], reset_attempts=True, actor="me")
    limited = JobFilter(queues=("limited",))
    yield "order", lambda store: store.order(CancelAll(reason="r"), limited, actor="me")
    yield "discard", lambda store: store.discard(["b"], actor="me")
    yield "submit", lambda store: store.submit([Draft(id="e", task="t", queue="limited")])
    plan = yield "plan_operation", lambda store: store.plan_operation(CancelAll(), limited)
    for name, end in (("first", "advance_operation"), ("second", "stop_operation")):
        draft = OperationDraft(id=name, plan=plan)
        yield "begin_operation", methodcaller("begin_operation", draft, actor="me")
        yield end, methodcaller(end, name, **({} if name == "first" else {"actor": "me"}))
    for state in (QueueState.PAUSED, QueueState.ACTIVE):
        yield "set_queue_state", methodcaller("set_queue_state", "limited", state, actor="me")
    yield "submit", lambda store: store.submit([Draft(id="f", task="t", queue="limited")])
    yield "purge_queue", lambda store: store.purge_queue("limited", JobFilter(), actor="me")
    yield "delete_queue", lambda store: store.delete_queue("limited", force=True, actor="me")
    yield "remove_schedule", lambda store: store.remove_schedule("tick", actor="me")
    clock.advance(1)
    now = Scope(force=True)
    run = None
    for _ in range(3):
        how = {"scope": now, "run": run, "actor": "me"}
        run = (yield "prune", methodcaller("prune", _PRUNE_ALL, **how)).run


def every_look() -> Script:
    """What only looks."""
    for verb in (
        "check", "cleanups", "daily", "describe", "failures", "lifetimes",
        "list_queues", "metrics", "metrics_by_queue", "now", "operations", "queues", "schedules",
        "series", "settings", "signing_key", "stats", "tokens", "worker_totals", "workers",
    ):  # fmt: skip
        yield verb, methodcaller(verb)
    for verb in ("archived", "attempts", "get", "history", "log", "position", "history_page"):
        yield verb, methodcaller(verb, "a")
    yield "peek", lambda store: store.peek("default", limit=2)
    yield "log_page", lambda store: store.log_page("a")
    yield "audit_page", lambda store: store.audit_page()
    yield "count", lambda store: store.count(JobFilter())
    yield "find_ids", lambda store: store.find_ids("a")
    yield "find_token", lambda store: store.find_token("digest")
    yield "get_schedule", lambda store: store.get_schedule("tick")
    yield "graph", lambda store: store.graph(["a", "c"])
    yield "key_info", lambda store: store.key_info("default", "k")
    yield "operation", lambda store: store.operation("first")
    yield "queue_info", lambda store: store.queue_info("default")
    yield "search_archive", lambda store: store.search_archive(JobFilter())
    yield "search", lambda store: store.search(JobFilter(), limit=100)
    yield "stuck", lambda store: store.stuck(0)
    yield "timeline", lambda store: store.timeline(["submitted"], since=store.now())
