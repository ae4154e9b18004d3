"""What single screens tell: missed ticks, a worker's version, an audit in words, a log's end."""

from __future__ import annotations

import re

from starlette.applications import Starlette

from dashboard.conftest import asked
from leasehold import Every, TaskQueue
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.dashboard import dashboard
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore


def opened() -> tuple[Starlette, TaskQueue, ManualClock]:
    """The dashboard of an empty store whose time is ours."""
    clock = ManualClock()
    queue = TaskQueue(MemoryStore(env=Env(clock=clock)), num_workers=0, actor="ada")
    return dashboard(queue, insecure=True), queue, clock


def words(app: Starlette, path: str) -> str:
    """A page without its markup."""
    answer = asked(app, path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def test_a_schedule_says_how_many_ticks_made_no_job() -> None:
    app, queue, clock = opened()
    queue.schedule("ping", "net:ping", Every(60), queue="mail")
    assert "none" in words(app, "/schedules")
    clock.advance(600)
    queue.store.fire_schedules()
    assert re.search(r" ping net:ping in mail .* 1 9 last 60s ago", words(app, "/schedules"))


def test_the_lease_card_and_the_workers_tell_the_version() -> None:
    app, queue, clock = opened()
    now = clock.now()
    queue.store.register_worker(
        WorkerInfo(
            id="w", host="web-1", pid=7, queues=("mail",), slots=1, started_at=now,
            heartbeat_at=now, app_version="v4.2<b>",
        )
    )  # fmt: skip
    queue.submit("send", queue="mail", job_id="held")
    queue.store.exchange(request=LeaseRequest(worker="w", queues=("mail",)))
    assert "Version v4.2&lt;b&gt;" in words(app, "/job?id=held")
    assert "version v4.2&lt;b&gt;" in words(app, "/workers")


def test_an_audit_record_is_told_in_words() -> None:
    app, queue, _ = opened()
    queue.create_queue("mail", max_depth=40)
    queue.cancel_each([queue.submit("send", job_id=f"job-{number}") for number in range(5)])
    queue.mark_deploy("v1.2")
    told = words(app, "/audit")
    assert "create queue queue mail max depth 40" in told
    assert "mark deploy deploy v1.2" in told
    assert "cancel 5 job job-0 job job-1 job job-2 and 2 more" in told
    assert "{" not in asked(app, "/audit").text.partition("<main")[2].partition("</main")[0]


def test_a_log_ends_with_the_newest_line_and_has_the_others_on_request() -> None:
    app, queue, clock = opened()
    queue.submit("send", job_id="chatty")
    [lease] = queue.store.exchange(request=LeaseRequest(worker="w")).leases
    lines = [LogLine(clock.now(), f"line {number}.") for number in range(250)]
    for start in range(0, 250, 50):
        queue.store.append_log("chatty", lease.version, lines[start : start + 50])
    told = words(app, "/job?id=chatty")
    assert "Show 50 earlier lines" in told
    assert "line 49." not in told
    assert told.index("line 50.") < told.index("line 249.")
    assert "line 0." in words(app, "/job?id=chatty&log=all")


def test_a_queue_whose_jobs_die_is_drained_too() -> None:
    app, queue, clock = opened()
    for _ in range(10):
        queue.submit("send", queue="mail", max_retries=0)
    clock.advance(600)
    now = clock.now()
    queue.store.register_worker(
        WorkerInfo(
            id="w", host="web-1", pid=7, queues=("mail",), slots=5, started_at=now, heartbeat_at=now
        )
    )
    leases = queue.store.exchange(
        request=LeaseRequest(worker="w", queues=("mail",), limit=5)
    ).leases
    outcome = Fail(JobError("Odd", "no"))
    queue.store.exchange([Settlement(each.job_id, each.version, outcome) for each in leases])
    clock.advance(60)
    assert re.search(r" mail active 5 11m 0.0 1.0 5m 0 ", words(app, "/queues"))
    assert "empty in 5m" in words(app, "/queue?name=mail")


def test_a_chart_without_anything_says_what_did_not_happen() -> None:
    app, queue, clock = opened()
    queue.submit("send", queue="mail")
    clock.advance(60)
    told = words(app, "/")
    assert "Nothing failed" in told
    assert "No attempt ended" in told
    assert "No data" not in told


def test_health_and_overview_say_the_same() -> None:
    app, queue, clock = opened()
    for number in range(5):
        queue.submit("send", queue=f"q{number}")
    clock.advance(3600)
    # The clock is turned by hand, which is a finding as well.
    said = "Jobs are held up: clock, no worker for 5 queues."
    assert said in words(app, "/")
    assert said in words(app, "/health")
    assert "And 2 more alerts (no worker): see all" in words(app, "/")
