"""Times for people: local and marked, and read as they are shown."""

from __future__ import annotations

import logging
import re
import time
from datetime import UTC, datetime

import pytest

from cli.conftest import Done, Shell
from cli.seed import kill, run_here, store_of
from leasehold.cli.times import time_text
from leasehold.worker.loglines import LogLineFormatter

MOMENT = datetime(2026, 11, 16, 3, 13, 10, tzinfo=UTC)


@pytest.fixture(params=["America/New_York", "Asia/Kolkata", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    return str(request.param)


def test_a_moment_is_local_and_says_so(zone: str) -> None:
    assert (
        time_text(MOMENT)
        == {
            "America/New_York": "2026-11-15 22:13:10-05",
            "Asia/Kolkata": "2026-11-16 08:43:10+05:30",
            "UTC": "2026-11-16 03:13:10Z",
        }[zone]
    )


def test_each_moment_has_the_offset_of_its_own_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert time_text(MOMENT.replace(month=7)) == "2026-07-15 23:13:10-04"


def shown(done: Done) -> str:
    [moment] = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S+", done.out)[-1:]
    return str(moment)


@pytest.mark.usefixtures("zone")
def test_a_time_copied_from_a_table_means_the_same_moment(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="letter")
        kill(queue)
    moment = shown(run_here(shell, "dlq", "list"))
    assert datetime.fromisoformat(moment).tzinfo is not None
    counted = run_here(shell, "list", "--created-before", moment, "--count")
    later = run_here(shell, "list", "--created-from", moment, "--count")
    assert int(counted.out) + int(later.out) == 1


@pytest.mark.usefixtures("zone")
def test_utc_on_request(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="letter")
        kill(queue)
    assert shown(run_here(shell, "dlq", "list", "--utc")).endswith("Z")
    assert shown(run_here(shell, "--utc", "dlq", "list")).endswith("Z")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--since", "+9999999d"], "'+9999999d' is out of range"),
        (["list", "--since", "-9999999d"], "'-9999999d' is out of range"),
        (["worker", "start", "--lease-seconds", "0"], "'0' is not a lease"),
    ],
)
def test_times_that_cannot_be_are_refused(shell: Shell, words: list[str], said: str) -> None:
    done = shell.run(*words)
    assert (done.code, said in done.err) == (2, True)


@pytest.mark.usefixtures("zone")
def test_sentences_have_times_as_tables_do(shell: Shell) -> None:
    with store_of(shell) as queue:
        queue.submit("work", job_id="later", delay="1h")
    said = run_here(shell, "why", "later").out
    assert "+00:00" not in said
    assert (
        shown(run_here(shell, "why", "later")).rstrip(",") in run_here(shell, "show", "later").out
    )
    in_utc = run_here(shell, "--utc", "why", "later").out
    assert re.search(r"It is due at \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, in ", in_utc)


def test_log_lines_have_the_local_time_and_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    due = MOMENT.isoformat(timespec="seconds")
    record = logging.LogRecord("leasehold.worker", logging.INFO, "", 0, "due at %s", (due,), None)
    record.created = MOMENT.timestamp()
    assert LogLineFormatter().format(record) == (
        "2026-11-15 22:13:10-05 INFO     due at 2026-11-15 22:13:10-05"
    )
    assert LogLineFormatter(utc=True).format(record) == (
        "2026-11-16 03:13:10Z INFO     due at 2026-11-16 03:13:10Z"
    )
    record.name = "shop"
    assert LogLineFormatter().format(record).endswith(due), "an application's words stay its own"
