"""The overview in trouble: a headline that fits, few alerts of a kind, and each leads on."""

from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette

from dashboard.conftest import asked
from leasehold import TaskQueue
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.settings import HEARTBEAT_SECONDS
from leasehold.dashboard.app import dashboard_routes
from leasehold.dashboard.pages.overview import SAME_SHOWN, alerts_of, few_of, headline
from leasehold.dashboard.visit import Desk
from leasehold.env import Env, ManualClock
from leasehold.observe.findings import Finding, Level
from leasehold.service.api import Api
from leasehold.stores.memory import MemoryStore


def alone(count: int) -> list[Finding]:
    """Queues without a worker."""
    return [
        Finding(
            check="no_worker", level=Level.CRITICAL, found="7 pending", queue=f"q{n}",
            advice=f"queuectl worker start --queues q{n}",
        )
        for n in range(count)
    ]  # fmt: skip


def test_many_alerts_of_a_kind_are_counted() -> None:
    letters = Finding(check="dead_letters", level=Level.WARNING, found="3")
    shown, left_out = few_of([*alone(500), letters])
    assert shown == [*alone(SAME_SHOWN), letters]
    assert left_out == {"no_worker": 500 - SAME_SHOWN}
    assert headline([*alone(500), letters]) == (
        "Jobs are held up: no worker for 500 queues. Also: dead letters."
    )


def test_a_headline_bounds_names_that_others_chose() -> None:
    long = Finding(check="depth", level=Level.WARNING, found="x", queue="\u202e" + "x" * 10_000)
    told = headline([long])
    assert len(told) < 120
    assert "\u202e" not in told


def test_an_alert_leads_on_and_says_what_a_shell_can_do() -> None:
    [alert] = alerts_of(alone(1))
    assert (alert.to, alert.advice) == ("queue?name=q0", "queuectl worker start --queues q0")
    [there] = alerts_of(alone(1), on="queue")
    assert (there.to, there.advice) == ("", alert.advice)
    dead = Finding(check="dead_letters", level=Level.WARNING, found="3", advice="queuectl dlq list")
    [alert] = alerts_of([dead])
    assert (alert.to, alert.advice) == ("failures", "")


@pytest.mark.parametrize(
    ("check", "to"), [("overdue_schedules", "workers"), ("orphaned_schedules", "schedules")]
)
def test_what_only_a_shell_can_do_about_schedules_is_said(check: str, to: str) -> None:
    finding = Finding(check=check, level=Level.WARNING, found="x", advice="queuectl ...")
    [alert] = alerts_of([finding])
    assert (alert.to, alert.advice) == (to, "queuectl ...")


def shop() -> tuple[TaskQueue, Starlette, ManualClock]:
    clock = ManualClock()
    env = Env(clock=clock)
    store = MemoryStore(env=env)
    app = Starlette(routes=dashboard_routes(Api(store, env=env, insecure=True)))
    return TaskQueue(store, num_workers=0, env=env), app, clock


def test_the_counts_of_tabs_are_those_of_the_store_or_none() -> None:
    queue, app, _ = shop()
    queue.submit("a", queue="one")
    queue.submit("b", queue="two")
    tab = re.compile(r">all<span[^>]*>(\d+)</span>")
    for query in ("", "?q=status:pending"):
        assert tab.findall(asked(app, f"/dashboard/jobs{query}").text) == ["2"]
    assert tab.findall(asked(app, "/dashboard/jobs?q=queue:one").text) == []


def test_text_that_looks_like_a_number_is_found_in_quotes() -> None:
    queue, app, _ = shop()
    text = queue.submit("a", metadata={"order": "17"})
    number = queue.submit("a", metadata={"order": 17})
    for query, found, other in (("17", number, text), ("%2217%22", text, number)):
        page = asked(app, f"/dashboard/jobs?q=meta.order:{query}").text
        assert found.id in page
        assert other.id not in page


def test_a_worker_whose_heartbeats_are_missing_is_late_everywhere() -> None:
    queue, app, clock = shop()
    job = queue.submit("a", queue="held")
    now = clock.now()
    info = WorkerInfo(
        id="w", host="elsewhere", pid=7, queues=("held",), slots=1, started_at=now, heartbeat_at=now
    )
    queue.store.register_worker(info, is_remote=True)
    assert queue.lease("held", worker="w", lease_seconds=3600) is not None
    clock.advance(2 * HEARTBEAT_SECONDS)
    assert "is late" not in asked(app, "/dashboard/").text, "a beat may be missed"
    clock.advance(HEARTBEAT_SECONDS)
    overview = asked(app, "/dashboard/").text
    assert "w is late: its last heartbeat was 1m30s ago" in overview
    assert "look at process 7 on elsewhere" in overview
    assert '<span class="chip s-late">late</span>' in asked(app, "/dashboard/workers").text
    assert "Its worker is late" in asked(app, f"/dashboard/job?id={job.id}").text
    queue.store.renew("w", [])
    clock.advance(SILENT_SECONDS / 12)
    assert "late" not in asked(app, "/dashboard/workers").text


def test_the_job_of_a_silent_worker_says_so_and_what_is_well_is_folded() -> None:
    queue, app, clock = shop()
    job = queue.submit("a", queue="held")
    now = clock.now()
    info = WorkerInfo(
        id="w", host="elsewhere", pid=7, queues=("held",), slots=1, started_at=now, heartbeat_at=now
    )
    queue.store.register_worker(info, is_remote=True)
    lease = queue.lease("held", worker="w", lease_seconds=3600)
    assert lease is not None
    assert "renews the lease" in asked(app, f"/dashboard/job?id={job.id}").text
    clock.advance(SILENT_SECONDS + 60)
    page = asked(app, f"/dashboard/job?id={job.id}").text
    assert "Its worker has said nothing for" in page
    assert "is stopped, starved or cut off" in page
    queue.submit("a", queue="held")
    clock.advance(3600)
    overview = asked(app, "/dashboard/").text
    assert "no worker for held" in overview, "a silent worker serves nothing"
    assert "the oldest for 1h" in overview
    health = asked(app, "/dashboard/health").text
    assert health.index("has been silent since 20") < health.index("<details")
    assert "T00:00:00+00:00" not in health


def test_trouble_comes_first_among_workers_and_who_left_nothing_behind_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, app, clock = shop()
    queue.submit("a", queue="held")
    now = clock.now()
    for name in ("away", "busy", "lost"):
        info = WorkerInfo(
            id=name, host="elsewhere", pid=7, queues=("held",), slots=1, started_at=now,
            heartbeat_at=now,
        )  # fmt: skip
        queue.store.register_worker(info, is_remote=True)
    assert queue.lease("held", worker="lost", lease_seconds=3600) is not None
    clock.advance(2 * HEARTBEAT_SECONDS + 60)
    queue.store.renew("busy", [])
    monkeypatch.setattr(Desk, "gone", lambda *_: {"away", "lost"})
    page = asked(app, "/dashboard/workers").text
    assert re.findall('data-row="(.*?)"', page) == ["lost", "busy", "away"]
