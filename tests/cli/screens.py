"""Every table of the command line, one after the other, on the terminal that this runs on.

The store stands still: its clock is turned by hand, and no name in it is made up. Run as a program.
"""

from __future__ import annotations

from typing import Any

import click

from leasehold import Cron, Every, TaskQueue
from leasehold.cli.main import run
from leasehold.cli.session import Session
from leasehold.core.model.lease import Consumer
from leasehold.core.model.tokens import TokenDraft
from leasehold.env import Env, ManualClock
from leasehold.queue import presence

LETTER = "019a8f3c-7d10-7e5f-9b5a-3f0c2d1e4a6b"
RUNS = "019a8f3c-7d22-7a01-8c11-77aa5b9c2929"
COMMAND = "019a8f3c-7d30-7b02-9d22-88bb6cad3a3a"
WORKERS = ("web-03.example.com-4711-8c5f", "web-04.example.com-4712-9d60")
DOWN = ConnectionError("the mail server at mail.example.com does not answer")
COMMANDS = (
    "status",
    "top --once",
    "list",
    "list --status running",
    f"show {LETTER}",
    f"history {LETTER}",
    "dlq list",
    f"dlq show {LETTER}",
    f"wait {LETTER} report-2030",
    "worker status",
    "stuck --silent 0s",
    "queue list",
    "queue show mail",
    "schedule list",
    "schedule show nightly-report",
    "stats",
    "stats --totals",
    "stats --by task",
    "stats --by priority",
    "stats --by attempt",
    "stats --by worker",
    "stats --by error",
    "stats --by minute --last 2",
    "stats --by day --last 2",
    "operations list",
    "config list",
    "token list",
    "audit",
)
clock = ManualClock()


def open_still(session: Session, **_: Any) -> TaskQueue:
    return TaskQueue(session.store_url, num_workers=0, actor="cli:ada", env=Env(clock))


def fill(queue: TaskQueue) -> None:
    queue.create_queue("mail", max_concurrency=5, rate_per_second=10)
    queue.submit(
        "shop.mail:send_receipt",
        "ada@example.com",
        job_id=LETTER,
        queue="mail",
        retry=[2],
        metadata={"tenant": "acme"},
    )
    for attempt in (1, 2):
        lease = queue.lease("mail", worker=WORKERS[0], wait=0)
        assert lease is not None
        clock.advance(1.5)
        queue.nack(lease, DOWN, requeue=attempt == 1)
        clock.advance(2)
    queue.submit("shop.reports:nightly", job_id=RUNS)
    queue.submit("shop.reports:nightly", job_id="report-2030")
    queue.submit_command(["convert", "in.png", "out.jpg"], job_id=COMMAND)
    queue.lease(worker=WORKERS[0], wait=0)
    done = queue.lease(worker=WORKERS[1], wait=0)
    assert done is not None
    clock.advance(3)
    queue.ack(done, {"pages": 3})
    queue.schedule("nightly-report", "shop.reports:nightly", Cron("0 3 * * 1-5"))
    queue.schedule("every-five-minutes", "shop.mail:flush", Every("5m"), queue="mail")
    token = TokenDraft(name="worker-1", roles=("consumer", "producer"))
    queue.store.create_token(token, "digest", actor="cli:ada")
    queue.pause_queue("mail")
    queue.settings.set("max_retries", 5)
    queue.cancel(COMMAND, reason="sold out")


def main() -> None:
    presence._here = lambda queues: Consumer(queues=queues, host="web-03", pid=4711)
    queue = TaskQueue("leasehold.db", num_workers=0, actor="cli:ada", env=Env(clock))
    fill(queue)
    Session._open = open_still  # type: ignore[method-assign, assignment]
    Session.shown_store = "/srv/shop/leasehold.db"  # type: ignore[method-assign, assignment]
    for line in COMMANDS:
        click.echo(f"$ queuectl {line}")
        run(line.split())
        click.echo()
    queue.shutdown()


if __name__ == "__main__":
    main()
