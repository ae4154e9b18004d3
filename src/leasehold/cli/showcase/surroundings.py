"""Steps of `demo` about what surrounds a job: order, tenants, tables, large data, settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from leasehold.cli.showcase import tasks
from leasehold.cli.showcase.stage import WAIT_SECONDS, ShowcaseStage
from leasehold.cli.showcase.step import ShowcaseStep, expect, most_at_once
from leasehold.queue.options import NewJob

MEBIBYTE: Final = 1024 * 1024


def deadlines(stage: ShowcaseStage) -> str:
    soon = stage.queue.now() + timedelta(minutes=1)
    late = stage.queue.submit(tasks.moment, queue="due", priority=60)
    urgent = stage.queue.submit(tasks.moment, queue="due", priority=50, deadline=soon)
    with stage.workers(1, "due"):
        first, second = urgent.result(WAIT_SECONDS), late.result(WAIT_SECONDS)
    expect(first < second, "the job that is due soon was served last")
    return "due within a minute, a job of priority 50 went before one of 60"


def tenants(stage: ShowcaseStage) -> str:
    stage.queue.create_queue("shared", key_concurrency=1)
    jobs = stage.queue.submit_many(
        [
            *[NewJob(tasks.pause, (0.05,), queue="shared", limit_key="large")] * 4,
            NewJob(tasks.pause, (0.05,), queue="shared", limit_key="small"),
        ]
    )
    with stage.workers(4, "shared"):
        stage.queue.wait(jobs, WAIT_SECONDS)
    of_large = [attempt for job in jobs[:4] for attempt in stage.queue.attempts(job)]
    [of_small] = stage.queue.attempts(jobs[4])
    expect(most_at_once(of_large) == 1, "the large tenant ran several jobs at once")
    before = sum(attempt.started_at < of_small.started_at for attempt in of_large)
    expect(before <= 1, f"the small tenant waited for {before} jobs of the large one")
    return "one job per tenant at a time: the small one did not wait for the large one's four"


def transactions(stage: ShowcaseStage) -> str:
    connection = stage.queue.connect()
    connection.execute("CREATE TABLE account (name TEXT PRIMARY KEY, paid INTEGER NOT NULL)")
    with connection.transaction():
        connection.execute("INSERT INTO account VALUES ('Ada', 0)")
        job = stage.queue.submit(tasks.pay, "Ada", 17, connection=connection)
    with stage.workers():
        job.result(WAIT_SECONDS)
    [(paid,)] = connection.execute("SELECT paid FROM account").fetchall()
    connection.close()
    expect(paid == 17, f"{paid} was paid")
    return "row and job in one commit; the task's rows and its completion in another"


def large_data(stage: ShowcaseStage) -> str:
    job = stage.queue.submit(tasks.shout, "leasehold " * (MEBIBYTE // 10))
    with stage.workers():
        result = job.result(WAIT_SECONDS)
    expect(result.startswith("LEASEHOLD"), f"it returned {result[:20]!r}")
    return f"{len(result) / MEBIBYTE:.1f} MiB went in and came back, kept as files beside the store"


def settings_and_metrics(stage: ShowcaseStage) -> str:
    stage.queue.settings.set("max_retries", "1")
    job = stage.queue.submit(tasks.add, 1, 2)
    with stage.workers():
        job.result(WAIT_SECONDS)
    stage.queue.settings.unset("max_retries")
    expect(job.job().max_retries == 1, f"it has {job.job().max_retries} retries")
    figures = stage.queue.metrics()
    expect(figures.completed > 0 and figures.run.p99_seconds is not None, "nothing was measured")
    return (
        f"a stored default counted at once; {figures.completed} jobs completed within the hour, "
        f"half of them in {(figures.run.p50_seconds or 0) * 1000:.1f} ms"
    )


SURROUNDINGS: Final = (
    ShowcaseStep("deadlines", "Waiting time, failures and deadlines count, too.", deadlines),
    ShowcaseStep("tenants", "A limit per key: no tenant takes every slot.", tenants),
    ShowcaseStep(
        "transactions", "Your own rows and jobs commit together, or not at all.", transactions
    ),
    ShowcaseStep("large data", "Large payloads and results are kept in files.", large_data),
    ShowcaseStep("settings", "Defaults in the store, figures kept by it.", settings_and_metrics),
)
