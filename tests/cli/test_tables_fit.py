"""Tables on terminals of 80 and 120 columns: one line per row, and what matters most is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.conftest import Shell
from cli.seed import golden, kill, store_of
from cli.terminal import Terminal
from leasehold import Cron, TaskQueue

LETTER = "019a8f3c-7d10-7e5f-9b5a-3f0c2d1e4a6b"
ERROR = "the mail server at mail.example.com does not answer"
WORKER = "shop-web-03.example.com-camera"
HEADINGS = {
    80: (
        "WORKER STATE PID QUEUES RUNNING LAST HEARTBEAT",
        "NAME STATE TIMING TASK NEXT RUN",
    ),
    120: (
        "WORKER KIND STATE PID CREW QUEUES SLOTS RUNNING JOBS LAST HEARTBEAT",
        "NAME STATE TIMING TASK QUEUE NEXT RUN LAST FIRED MISSED ERROR",
    ),
}
"""Of workers and of schedules."""
DEAD_LETTERS = {
    80: """
ID          TASK                 DEAD SINCE             WHY
────────────────────────────────────────────────────────────────────────────────
…2d1e4a6b   shop.mail:send_re…   YYYY-MM-DD HH:MM:SSZ   Nack: the mail server a…
""",
    120: """
ID          QUEUE           TASK                   ATTEMPTS   FAILURES   DEAD SINCE             WHY
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
…2d1e4a6b   outgoing-mail   shop.mail:send_rece…          1          1   YYYY-MM-DD HH:MM:SSZ   Nack: the mail server a…
""",  # noqa: E501
}
ATTEMPTS = {
    80: "ATTEMPT WORKER SECONDS OUTCOME ERROR",
    120: "ATTEMPT WORKER STARTED SECONDS OUTCOME ERROR",
}


@pytest.fixture
def shop(shell: Shell) -> Iterator[Shell]:
    """A store with a dead letter, a consumer and a schedule."""
    with store_of(shell) as queue:
        queue.submit("shop.mail:send_receipt", job_id=LETTER, queue="outgoing-mail")
        kill(queue, "outgoing-mail", ERROR)
        queue.lease(["default", "outgoing-mail"], worker=WORKER, wait=0)
        queue.schedule("nightly-report", "shop.reports:nightly", Cron("0 3 * * 1-5"))
        yield shell


def screen(shell: Shell, *arguments: str, columns: int) -> list[str]:
    """The lines that a person sees."""
    with Terminal(
        shell.command(*arguments),
        cwd=shell.folder,
        env=shell.environment,
        columns=columns,
        lines=40,
    ) as terminal:
        assert terminal.end() == 0
        return golden(terminal.text).splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_dead_letters(shop: Shell, columns: int) -> None:
    shown = screen(shop, "dlq", "list", columns=columns)
    assert shown == golden(DEAD_LETTERS[columns]).splitlines()


def test_a_workers_jobs_are_there_by_the_ends_of_their_ids(shop: Shell) -> None:
    job_id = f"{LETTER[:-1]}c"
    with TaskQueue(shop.folder / "leasehold.db", num_workers=0) as queue:
        queue.submit("shop.mail:send_receipt", job_id=job_id, queue="post")
        queue.lease("post", worker="postman", wait=0)
        shown = screen(shop, "worker", "status", columns=140)
    assert f"   …{job_id[-8:]} shop.m" in next(line for line in shown if "postman" in line)


@pytest.mark.parametrize("columns", [80, 120])
def test_ids_show_their_ends_where_there_is_no_room_and_are_accepted_so(
    shop: Shell, columns: int
) -> None:
    shown = screen(shop, "list", columns=columns)
    assert "shop.mail:send_receipt" in shown[2]
    assert "Nack: the mail" in shown[2]
    short = shown[2].split()[0]
    assert short == "…2d1e4a6b"
    assert shop.ok("show", short, "-o", "json").json["job"]["id"] == LETTER
    # Into a pipe there is always room.
    assert LETTER in shop.ok("list").out


@pytest.mark.parametrize("columns", [80, 120])
def test_workers_and_schedules(shop: Shell, columns: int) -> None:
    workers, schedules = HEADINGS[columns]
    heading, _, *rows = screen(shop, "worker", "status", columns=columns)
    assert " ".join(heading.split()) == workers
    assert [row[:7] for row in rows] == ["consume", "shop-we"]
    heading, _, *rows = screen(shop, "schedule", "list", columns=columns)
    assert " ".join(heading.split()) == schedules
    assert [row[:7] for row in rows] == ["nightly"]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_attempts_of_a_dead_letter(shop: Shell, columns: int) -> None:
    lines = screen(shop, "dlq", "show", LETTER, columns=columns)
    [at] = [n for n, line in enumerate(lines) if line.startswith("ATTEMPT")]
    assert " ".join(lines[at].split()) == ATTEMPTS[columns]
    attempt = lines[at + 2].split()
    assert "consumer" in attempt
    assert "dead" in attempt
    told = " ".join(line[lines[at].index("ERROR") :].strip() for line in lines[at + 2 : at + 5])
    assert told.startswith(f"Nack: {ERROR}")


@pytest.mark.parametrize("columns", [80, 120])
def test_running_jobs_say_who_holds_them_and_until_when(shop: Shell, columns: int) -> None:
    with store_of(shop) as queue:
        for job_id in ("chosen-by-the-caller", LETTER[:-1] + "c"):
            queue.submit("shop.reports.monthly:invoices_of_all_tenants", job_id=job_id)
            queue.lease(worker=WORKER, wait=0)
    heading, _, *rows = screen(shop, "list", "--state", "running", columns=columns)
    assert [name in heading for name in ("ID", "TASK", "WORKER", "LEASE ENDS")] == [True] * 4
    assert len(rows) == 2
    for row in rows:
        assert "shop-web-03" in row
        assert " in 4m" in row or " in 5m" in row


@pytest.mark.parametrize("columns", [80, 120])
def test_a_long_error_takes_one_line_of_the_status(shell: Shell, columns: int) -> None:
    with store_of(shell) as queue:
        queue.submit("shop.mail:send_receipt", queue="outgoing-mail")
        kill(queue, "outgoing-mail", f"{ERROR}; " * 6)
    shown = screen(shell, "status", columns=columns)
    heading = next(number for number, line in enumerate(shown) if line.startswith("TIMES"))
    row, after = shown[heading + 2], shown[heading + 3]
    assert "Nack: the mail" in row
    assert not after.startswith(" " * 20), shown
