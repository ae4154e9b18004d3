"""Hosts whose link to the PostgreSQL server is cut, in networks of their own on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold import NewJob, Status, TaskQueue
from support.faulty_worker import PATIENCE_SECONDS, News
from support.hosts import SERVER, Hosts, hosts
from support.servers import Server, needs_psycopg, own_server
from support.zygote import Zygote, zygote

needs_psycopg()

import psycopg  # noqa: E402

pytestmark = pytest.mark.faults

# The network's own limits, shorter than by default. Those of the server are as by default: it alone
# would be waited for longer than any test waits.
NETWORK = (
    "tcp_user_timeout=1500&keepalives_idle=1&keepalives_interval=1&connect_timeout=2"
    "&pool_timeout_seconds=2"
)
CONNECTIONS = """
    SELECT application_name FROM pg_stat_activity
    WHERE client_addr IS NOT NULL AND backend_start > %s
"""
COMMITTING = """
    SELECT pid FROM pg_stat_activity WHERE application_name = %s AND wait_event = 'SyncRep'
"""
WORK = "support.faulty_worker:work"


@pytest.fixture(scope="module")
def net() -> Iterator[Hosts]:
    with hosts("left", "right") as made:
        yield made


@pytest.fixture(scope="module")
def server(net: Hosts) -> Iterator[Server]:
    with own_server(network=net.network(SERVER)) as made:
        yield made


@pytest.fixture
def news(tmp_path: Path) -> Iterator[News]:
    told = News(tmp_path / "news")
    yield told
    told.close()


@contextmanager
def host(net: Hosts, name: str) -> Iterator[Zygote]:
    """What runs on a host."""
    net.join(name)
    with zygote("support.faulty_worker", within=net.within(name)) as processes:
        yield processes


def url(net: Hosts, name: str, schema: str) -> str:
    return f"postgresql://postgres@{net.server_seen_from(name)}/postgres?schema={schema}&{NETWORK}"


def test_the_job_of_a_host_that_is_cut_off_runs_elsewhere_when_its_lease_ends(
    net: Hosts, server: Server, news: News
) -> None:
    options: dict[str, Any] = {"lease_seconds": 4.0, "sweep_interval": 1.0}
    with (
        TaskQueue(f"{server.url}&schema=moved", num_workers=0) as queue,
        host(net, "left") as left,
        host(net, "right") as right,
    ):
        queue.submit_many([NewJob("hold", (news.path, "held"), job_id="held")])
        holder = left.spawn(WORK, url(net, "left", "moved"), news.path, options)
        runner, first = news.wait_for("started", "held")
        assert runner == holder
        net.cut("left")
        # What it has renewed before, and nothing comes from there any more.
        lease_end = queue.get("held").lease_expires_at
        assert lease_end is not None
        other = right.spawn(WORK, url(net, "right", "moved"), news.path, options)
        # After three heartbeats that nobody answered it no longer believes that it holds the job.
        assert news.wait_for("lost", "held") == (holder, first)
        runner, second = news.wait_for("started", "held")
        assert (runner, second > first) == (other, True)
        assert queue.attempts("held")[1].started_at >= lease_end
        news.open_gate("held", second)
        assert queue.wait("held", PATIENCE_SECONDS).status is Status.COMPLETED

        # What it finishes too late is refused, and when it is back it goes on by itself.
        right.kill_all()
        net.join("left")
        news.open_gate("held", first)
        queue.submit_many([NewJob("hold", (news.path, "next"), job_id="next")])
        runner, version = news.wait_for("started", "next")
        assert runner == holder
        news.open_gate("next", version)
        assert queue.wait("next", PATIENCE_SECONDS).status is Status.COMPLETED
        assert queue.get_result("held") == other
        assert queue.check() == []


def test_what_a_host_settles_after_its_lease_has_ended_is_refused_when_it_is_back(
    net: Hosts, server: Server, news: News
) -> None:
    """A holder that knows of nothing: it has no heartbeat that would tell it."""
    with (
        TaskQueue(f"{server.url}&schema=late", num_workers=0) as queue,
        host(net, "left") as left,
        host(net, "right") as right,
    ):
        queue.submit_many([NewJob("hold", (news.path, "late"), job_id="late")])
        consume = "support.faulty_worker:consume"
        holder = left.spawn(consume, url(net, "left", "late"), news.path, 3.0)
        assert news.wait_for("started", "late")[0] == holder
        first = queue.get("late").lease_version
        net.cut("left")
        options: dict[str, Any] = {"sweep_interval": 1.0}
        other = right.spawn(WORK, url(net, "right", "late"), news.path, options)
        runner, second = news.wait_for("started", "late")
        assert (runner, second > first) == (other, True)
        net.join("left")
        # While the other one runs it, and under the earlier lease.
        news.open_gate("late", first)
        assert news.wait_for("LeaseConflictError", "late") == (holder, first)
        news.open_gate("late", second)
        assert queue.wait("late", PATIENCE_SECONDS).status is Status.COMPLETED
        assert queue.get_result("late") == other
        assert queue.check() == []


def wait_until_commits_wait(server: Server, db: psycopg.Connection[Any]) -> None:
    """The processes of a server learn of a new setting one after the other."""
    waits = threading.Event()
    options = "application_name=probe&options=-csynchronous_commit%3Don"
    with psycopg.connect(f"{server.url}&{options}", autocommit=True) as probe:

        def commit() -> None:
            while not waits.is_set():
                probe.execute("SELECT pg_logical_emit_message(true, 'probe', '')")

        thread = threading.Thread(target=commit)
        thread.start()
        try:
            waiting = None
            while waiting is None:
                waiting = db.execute(COMMITTING, ("probe",)).fetchone()
        finally:
            waits.set()
            db.execute("SELECT pg_cancel_backend(%s)", (probe.info.backend_pid,))
            thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("comes_back", [True, False], ids=["comes back", "stays away"])
def test_a_submit_whose_server_vanishes_during_its_commit_is_stored_once(
    net: Hosts, server: Server, news: News, comes_back: bool
) -> None:
    """Nobody says goodbye: the commit is carried out, and its answer is lost with the link."""
    schema = "came" if comes_back else "stayed"
    with (
        host(net, "left") as left,
        psycopg.connect(server.url, autocommit=True) as db,
        TaskQueue(f"{server.url}&schema={schema}", num_workers=0) as queue,
    ):
        where = f"{url(net, 'left', schema)}&options=-csynchronous_commit%3Don"
        submit = "submit_without_key" if comes_back else "submit_by_key"
        child = left.spawn(f"support.faulty_worker:{submit}", where, news.path, "one", "two")
        assert news.wait_for("started", "one") == (child, 1)
        news.open_gate("one", 1)
        assert news.wait_for("submitted", "one") == (child, 1)
        assert news.wait_for("started", "two") == (child, 1)
        # Commits wait for a standby that is not there.
        db.execute(b"ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        db.execute(b"SELECT pg_reload_conf()")
        try:
            wait_until_commits_wait(server, db)
            news.open_gate("two", 1)
            committing = None
            while committing is None:
                committing = db.execute(COMMITTING, (f"leasehold {schema}",)).fetchone()
            net.cut("left")
        finally:
            db.execute(b"ALTER SYSTEM RESET synchronous_standby_names")
            db.execute(b"SELECT pg_reload_conf()")
        # The server gives up the connection, of which its client does not hear.
        db.execute(b"SELECT pg_terminate_backend(%s, 10000)", committing)
        if comes_back:
            net.join("left")
            assert news.wait_for("submitted", "two") == (child, 1)
        else:
            assert news.wait_for("StoreUnavailableError", "two") == (child, 1)
            net.join("left")
            assert news.wait_for("started", "two") == (child, 2)
            news.open_gate("two", 2)
            assert news.wait_for("submitted", "two") == (child, 2)
        assert [job.metadata for job in queue.search()] == [{"name": "two"}, {"name": "one"}]
        assert queue.check() == []


def test_a_host_that_is_cut_off_keeps_its_leases_although_the_server_gives_up_its_connections(
    net: Hosts, server: Server, news: News
) -> None:
    """The lock of its worker's life stays held: that a host is silent proves nothing."""
    impatient = {"tcp_keepalives_idle": 1, "tcp_keepalives_interval": 1, "tcp_user_timeout": 1000}
    with (
        TaskQueue(f"{server.url}&schema=kept", num_workers=0) as queue,
        psycopg.connect(server.url, autocommit=True) as db,
        host(net, "left") as left,
    ):
        for name, value in impatient.items():
            db.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        begin = db.execute("SELECT clock_timestamp() FROM pg_reload_conf()").fetchone()
        queue.submit_many([NewJob("hold", (news.path, "kept"), job_id="kept")])
        holder = left.spawn(WORK, url(net, "left", "kept"), news.path, {"lease_seconds": 600.0})
        _, version = news.wait_for("started", "kept")
        net.cut("left")
        left_over = db.execute(CONNECTIONS, begin).fetchall()
        while set(left_over) - {("leasehold session",)}:
            left_over = db.execute(CONNECTIONS, begin).fetchall()
        assert left_over == [("leasehold session",)]
        assert queue.sweep().recovered == 0
        net.join("left")
        news.open_gate("kept", version)
        assert queue.wait("kept", PATIENCE_SECONDS).status is Status.COMPLETED
        assert queue.get_result("kept") == holder
        assert queue.get("kept").attempts == 1


def test_calls_of_a_host_that_is_cut_off_end_and_work_again_when_it_is_back(
    net: Hosts, server: Server, news: News
) -> None:
    with host(net, "left") as left:
        where = url(net, "left", "called")
        child = left.spawn("support.faulty_worker:submit", where, news.path, "one", "two")

        def submits(name: str, attempt: int, answer: str) -> None:
            assert news.wait_for("started", name) == (child, attempt)
            news.open_gate(name, attempt)
            assert news.wait_for(answer, name) == (child, attempt)

        submits("one", 1, "submitted")
        net.cut("left")
        submits("two", 1, "StoreUnavailableError")
        net.join("left")
        submits("two", 2, "submitted")
    with TaskQueue(f"{server.url}&schema=called", num_workers=0) as queue:
        assert {job.id for job in queue.search()} == {"one", "two"}
