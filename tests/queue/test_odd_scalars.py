"""Subclasses of text and numbers are what they seem to be, in every public call that takes some."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from leasehold import CancelAll, Cron, Every, LeaseholdError, NewJob, TaskQueue
from leasehold.queue.handle import JobHandle
from support.public_calls import fill, public_calls


class Text(str):
    """Such as Markup, or numpy.str_: encoders that look at the class refuse it."""

    __slots__ = ()


class Number(float):
    """Such as numpy.float64."""

    __slots__ = ()


class Whole(int):
    """Such as an IntEnum."""


T, N, W = Text, Number, Whole
Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "attempts": lambda q: q.attempts(T("done")),
    "audit_log": lambda q: q.audit_log(W(5)),
    "await_end": lambda q: asyncio.run(q.await_end(T("done"), N(1))),
    "audit_page": lambda q: q.audit_page(limit=W(5)),
    "cancel": lambda q: q.cancel(T("one"), T("why")),
    "cancel_each": lambda q: q.cancel_each([T("one")], T("why")),
    "cancel_graph": lambda q: q.cancel_graph(T("one"), reason=T("why")),
    "cancel_many": lambda q: q.cancel_many(queue=T("red"), reason=T("why")),
    "changes": lambda q: q.changes(limit=W(5)),
    "cleanups": lambda q: q.cleanups(limit=W(5)),
    "count": lambda q: q.count(text=T("one"), error_text=T("x"), limit_key=T("k")),
    "create_queue": lambda q: q.create_queue(
        T("blue"),
        max_depth=W(5),
        rate_per_second=N(5),
        lease_seconds=N(5),
        retry=[N(1), W(2)],
        retention={"completed_seconds": N(5)},
    ),
    "cron": lambda q: q.cron(T("* * * * *"), zone=T("UTC"), name=T("c"), queue=T("red"))(print),
    "daily": lambda q: q.daily(T("red"), days=W(2)),
    "delete_queue": lambda q: q.delete_queue(T("red"), force=True),
    "dependency_results": lambda q: q.dependency_results(T("done")),
    "discard": lambda q: q.discard(T("done")),
    "discard_each": lambda q: q.discard_each([T("done")]),
    "drain_queue": lambda q: q.drain_queue(T("red")),
    "estimated_start": lambda q: q.estimated_start(T("one")),
    "every": lambda q: q.every(N(60), name=T("e"), queue=T("red"), priority=T("high"))(print),
    "extend": lambda q: q.extend(q.lease("red", worker="w"), N(60)),
    "failures": lambda q: q.failures(queue=T("red"), task=T("t"), limit=W(5)),
    "find_ids": lambda q: q.find_ids(T("o"), limit=W(3)),
    "forget_deploy": lambda q: q.forget_deploy(T("v1")),
    "get": lambda q: q.get(T("one")),
    "get_queue_stats": lambda q: q.get_queue_stats(T("red")),
    "get_result": lambda q: q.get_result(T("done"), N(1)),
    "get_status": lambda q: q.get_status(T("one")),
    "graph": lambda q: q.graph(T("one")),
    "history": lambda q: q.history(T("one")),
    "history_page": lambda q: q.history_page(T("one"), limit=W(5)),
    "job_log": lambda q: q.job_log(T("one")),
    "key_info": lambda q: q.key_info(T("red"), T("k")),
    "lease": lambda q: q.lease(
        T("red"), T("w"), [T("t")], N(0), lease_seconds=N(9), parent=T("dad")
    ),
    "lease_many": lambda q: q.lease_many(
        W(2), [T("red")], T("w"), [T("t")], N(0), lease_seconds=N(9)
    ),
    "log": lambda q: q.log(T("one")),
    "log_page": lambda q: q.log_page(T("one"), limit=W(5)),
    "mark_deploy": lambda q: q.mark_deploy(T("v2"), T("new")),
    "metrics": lambda q: q.metrics(T("red"), window_seconds=N(60)),
    "metrics_by_queue": lambda q: q.metrics_by_queue(window_seconds=N(60)),
    "nack": lambda q: q.nack(q.lease("red", worker="w"), T("broken"), retry_after=N(5)),
    "output_paths": lambda q: q.output_paths(T("one"), attempt=W(1)),
    "pause_queue": lambda q: q.pause_queue(T("red")),
    "peek": lambda q: q.peek(T("red"), W(2)),
    "position": lambda q: q.position(T("one")),
    "purge_queue": lambda q: q.purge_queue(T("red"), task=T("t")),
    "queue_config": lambda q: q.queue_config(T("red")),
    "queue_info": lambda q: q.queue_info(T("red")),
    "replay": lambda q: q.replay(T("gone")),
    "replay_each": lambda q: q.replay_each([T("gone")]),
    "replay_graph": lambda q: q.replay_graph(T("gone")),
    "reprioritize": lambda q: q.reprioritize(T("one"), W(7)),
    "reprioritize_each": lambda q: q.reprioritize_each([T("one")], T("high")),
    "requeue": lambda q: q.requeue(q.lease("red", worker="w"), delay=N(5), reason=T("later")),
    "requeue_stuck": lambda q: q.requeue_stuck(N(60), N(60)),
    "resume_queue": lambda q: q.resume_queue(T("red")),
    "retry": lambda q: q.retry(T("gone")),
    "schedule": lambda q: q.schedule(
        T("s"),
        T("t"),
        Cron(T("* * * * *"), zone=T("UTC")),
        args=[1],
        queue=T("red"),
        metadata={T("a"): N(1)},
        grace_seconds=N(5),
        declared_in=T("here"),
    ),
    "schedule_command": lambda q: q.schedule_command(
        T("sc"), [T("ls"), T("-l")], Every(N(60)), cwd=T("/"), env={T("A"): T("b")}, stdin=T("x")
    ),
    "search": lambda q: list(q.search(queue=T("red"), priority_min=W(1), parent_id=T("dad"))),
    "search_page": lambda q: q.search_page(limit=W(1), ids=[T("one")]),
    "series": lambda q: q.series(T("red"), minutes=W(2)),
    "stop_worker": lambda q: _refused(q.stop_worker, T("nobody")),
    "stuck": lambda q: q.stuck(N(60), N(60)),
    "submit": lambda q: q.submit(
        T("t"),
        T("argument"),
        job_id=T("two"),
        queue=T("red"),
        priority=W(4),
        client=T("c"),
        delay=N(5),
        max_retries=W(2),
        timeout_seconds=N(5),
        idempotency_key=T("key"),
        limit_key=T("k"),
        parent_id=T("dad"),
        depends_on=[T("one")],
        retry=N(5),
        on_dependency_failure=T("cancel"),
        metadata={T("a"): T("b")},
        lease_seconds=N(60),
        start_within_seconds=N(60),
        result_ttl_seconds=N(60),
    ),
    "submit_command": lambda q: q.submit_command(
        [T("ls"), T("-l")], cwd=T("/"), env={T("A"): T("b")}, stdin=T("x"), queue=T("red")
    ),
    "submit_many": lambda q: q.submit_many([NewJob(T("t"), queue=T("red"), priority=W(3))]),
    "task": lambda q: q.task(name=T("named"), aliases=[T("old")], queue=T("red"))(sorted).submit(
        []
    ),
    "timeline": lambda q: q.timeline(T("completed"), queue=T("red")),
    "update_queue": lambda q: q.update_queue(T("red"), max_retries=W(3), starts_per_second=N(5)),
    "wait": lambda q: q.wait([T("done")], N(1)),
    "why": lambda q: q.why(T("one")),
    "worker_totals": lambda q: q.worker_totals(limit=W(5)),
    "dead_letters.discard": lambda q: q.dead_letters.discard(T("gone")),
    "dead_letters.list": lambda q: list(q.dead_letters.list(task=T("t"))),
    "dead_letters.purge": lambda q: q.dead_letters.purge(task=T("t")),
    "dead_letters.replay": lambda q: q.dead_letters.replay([T("gone")]),
    "operations.get": lambda q: q.operations.get(T(_planned(q))),
    "operations.plan": lambda q: q.operations.begin(
        q.operations.plan(CancelAll(T("why")), queue=T("red"), task=T("t"))
    ),
    "operations.samples": lambda q: q.operations.samples(
        q.operations.plan(CancelAll(), queue="red"), W(3)
    ),
    "operations.stop": lambda q: q.operations.stop(T(_planned(q))),
    "operations.resume": lambda q: q.operations.resume(T(_planned(q))),
    "operations.undo": lambda q: q.operations.undo(
        T(q.operations.carry_out(q.operations.get(_planned(q))).id)
    ),
    "archive.get": lambda q: _refused(q.archive.get, T("one")),
    "archive.search": lambda q: list(q.archive.search(task=T("t"), run_seconds_min=N(1))),
    "settings.get": lambda q: q.settings.get(T("poll_interval")),
    "settings.info": lambda q: q.settings.info(T("poll_interval")),
    "settings.set": lambda q: (
        q.settings.set(T("poll_interval"), N(3)),
        q.settings.set("max_retries", W(2)),
        q.settings.set("lease_seconds", T("5m")),
    ),
    "settings.unset": lambda q: q.settings.unset(T("poll_interval")),
    "schedules.get": lambda q: q.schedules.get(T("daily")),
    "schedules.pause": lambda q: q.schedules.pause(T("daily")),
    "schedules.resume": lambda q: q.schedules.resume(T("daily")),
    "schedules.remove": lambda q: q.schedules.remove(T("daily")),
    "schedules.run": lambda q: q.schedules.run(T("daily"), job_id=T("now")),
    "handle.cancel": lambda q: JobHandle(q, "one", q.codec_for("t")).cancel(T("why")),
}


def _refused(call: Callable[[Any], Any], given: str) -> None:
    with pytest.raises(LeaseholdError, match=given):
        call(given)


def _planned(queue: TaskQueue) -> str:
    return queue.operations.begin(queue.operations.plan(CancelAll("x"), queue="red")).id


@pytest.fixture
def queue(url: str) -> Any:
    with TaskQueue(url, num_workers=0, actor=Text("ann"), client=Text("shop")) as opened:
        fill(opened)
        yield opened


@pytest.mark.parametrize("call", CALLS)
def test_it_is_taken(queue: TaskQueue, call: str) -> None:
    CALLS[call](queue)
    assert queue.check() == []
    assert [record.actor for record in queue.audit_log()] != []


SCALARS = re.compile(r"\b(str|JobRef|Seconds|int|float|\w*Options|FilterFields)\b")
ELSEWHERE = {
    *("shutdown", "ashutdown", "join", "ajoin", "await_ends"),  # They take a timeout only.
    *("acancel", "aget", "aget_result", "aget_status"),  # They hand over to those above.
    *("backup", "load_tasks", "own_id", "run_worker"),  # What they take is stored nowhere.
}


def test_every_public_call_that_takes_texts_or_numbers_is_tried() -> None:
    untried = [
        name
        for name, call in public_calls(ELSEWHERE).items()
        if name not in CALLS
        for each in inspect.signature(call).parameters.values()
        if SCALARS.search(str(each.annotation))
    ]
    assert untried == []
