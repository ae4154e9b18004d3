"""A process that may open no more files: it is told so, by an error that says to try again."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.errors import StoreUnavailableError
from leasehold.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.faults

FREE_MAX = 16
"""With so many left, everything works."""


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """No more than so many files can be opened inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        lowered = min(soft, 512)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, hard))
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        fds = []
        with suppress(OSError):
            while True:
                fds.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(fds.pop())
        for fd in fds:
            taken.callback(os.close, fd)
        yield


def stored(path: Path) -> closing[SQLiteStore]:
    return closing(SQLiteStore(path, durability="full"))


def work(store: SQLiteStore, prefix: str, done: list[str]) -> None:
    """Submit, run and look; what came back without an error is in `done`."""
    store.submit([Draft(id=f"{prefix}-1", task="t")])
    done.append(f"{prefix}-1")
    for lease in store.exchange(request=LeaseRequest(worker="w", limit=9)).leases:
        store.exchange([Settlement(lease.job_id, lease.version, Complete(b"1"))])
    store.search(JobFilter())
    connection = store.connect()
    with connection.transaction():
        store.submit_within(connection, [Draft(id=f"{prefix}-2", task="t")])
    done.append(f"{prefix}-2")
    connection.close()


@pytest.mark.parametrize("is_open", [False, True])
def test_every_call_is_refused_in_words_or_works(tmp_path: Path, is_open: bool) -> None:
    """However many files can still be opened, before the store is or after."""
    path = tmp_path / "jobs.db"
    with stored(path):
        pass
    done: list[str] = []
    refusals: list[str] = []
    for count in range(FREE_MAX):
        with ExitStack() as opened:
            store = opened.enter_context(stored(path)) if is_open else None
            try:
                with descriptors_left(count):
                    store = store or opened.enter_context(stored(path))
                    work(store, str(count), done)
            except StoreUnavailableError as error:
                refusals.append(str(error))
            if store is not None:
                # The same store works as soon as there is room.
                work(store, f"again-{count}", done)
    assert refusals
    assert [each for each in refusals if "too many open files. Close some" not in each] == []
    with stored(path) as store:
        assert [job_id for job_id in done if store.get(job_id) is None] == []
        assert store.check() == []


def test_whoever_cannot_open_the_log_makes_nobody_stop(tmp_path: Path) -> None:
    """It is not the disk that has failed: others write on, and so does this one later."""
    path = tmp_path / "jobs.db"
    with (
        stored(path) as store,
        stored(path) as looking,
    ):
        store.submit([Draft(id="a", task="t")])
        sync = looking._database.sync
        shared = sync._shared
        shared[2] = 0  # As if the latest commit was not synced yet.
        sync._opened = None

        def full(*_: object) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("leasehold.stores.sqlite.disk.log_sync.os.open", full)
            with pytest.raises(StoreUnavailableError, match="too many open files"):
                looking.get("a")
        store.submit([Draft(id="b", task="t")])
        assert looking.get("b") is not None
