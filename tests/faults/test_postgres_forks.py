"""Forked children of a process with a PostgreSQL store: what of the parent's they keep open."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from leasehold.core.model.job import Draft
from support.acknowledged import Acknowledged
from support.forked_holders import the_child
from support.servers import needs_psycopg
from support.zygote import zygote

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402

pytestmark = pytest.mark.faults

PATIENCE_SECONDS = 20


@contextmanager
def orphan(url: str, function: str) -> Iterator[int]:
    """The forked child of a process that was killed while it did this."""
    told = Acknowledged()
    with zygote("support.forked_holders", pass_fds=(told.tell_fd,)) as processes:
        parent = processes.spawn(f"support.forked_holders:{function}", url, told.tell_fd)
        child = the_child(told)
        processes.kill(parent)
        try:
            yield child
        finally:
            os.kill(child, signal.SIGKILL)
            told.close()


def wait_until(is_so: Callable[[], bool], db: psycopg.Connection) -> bool:
    """Ask again and again, for as long as that may take on a busy machine."""
    for _ in range(PATIENCE_SECONDS * 20):
        if is_so():
            return True
        db.execute(b"SELECT pg_sleep(0.05)")
    return False


def test_what_a_killed_process_held_is_free_although_a_forked_child_lives_on(url: str) -> None:
    """Its transactions are undone as soon as it is dead: the child has none of its sockets."""
    PostgresStore(url).close()
    server = url.partition("&schema")[0]
    with psycopg.connect(server, autocommit=True) as db, closing(PostgresStore(url)) as store:
        names = {
            f"leasehold {store._database.address.schema} application",
            "leasehold ears",
        }

        def are_gone() -> bool:
            found = db.execute(
                b"SELECT application_name FROM pg_stat_activity WHERE application_name = ANY(%s)",
                (list(names),),
            )
            return not found.fetchall()

        with orphan(url, "hold_a_transaction_and_fork") as child:
            assert wait_until(are_gone, db)
            os.kill(child, 0)
            store.submit([Draft(id="next", task="t", idempotency_key="alone")])
            assert store.get("never") is None


def test_a_workers_death_is_proved_when_its_forked_children_are_gone_too(url: str) -> None:
    """As on every store: a child may be at work on its jobs."""
    PostgresStore(url).close()
    server = url.partition("&schema")[0]
    with psycopg.connect(server, autocommit=True) as db, closing(PostgresStore(url)) as store:
        database = store._database
        database.deaths._up_seconds = 0.0

        def is_free() -> bool:
            with database.read() as own:
                return bool(database.deaths.free(own))

        with orphan(url, "register_and_fork"):
            # The child has connections of its own.
            assert store.get("child") is not None
            assert not is_free()
        assert wait_until(is_free, db)
