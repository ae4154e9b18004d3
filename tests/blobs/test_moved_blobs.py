"""Large payloads and results on PostgreSQL, and the way there and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.blobs.moving import move_blobs
from leasehold.connect import connect
from leasehold.core.rules.moving import move
from leasehold.env import SYSTEM
from leasehold.errors import StoreUnavailableError
from leasehold.testing import drain
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres.keeping.blobs import TableBlobs  # noqa: E402

LARGE = "a" * 1_000_000


@pytest.fixture
def url(schemas: Schemas) -> Iterator[str]:
    url = schemas.lend()
    yield url
    schemas.take_back(url)


def queue_on(store: str) -> TaskQueue:
    queue = TaskQueue(store, num_workers=0)
    queue.task(name="shout")(str.upper)
    return queue


def result_in(queue: TaskQueue, job_id: str) -> str:
    job = queue.get(job_id)
    assert job is not None
    return str(queue.result_of(job))


def move_all(source: str, target: str) -> int:
    old, new = connect(source), connect(target)
    try:
        return move(old, new, env=SYSTEM, actor="me", besides=lambda: move_blobs(old, new)).blobs
    finally:
        old.close()
        new.close()


def test_whoever_reaches_the_store_reaches_them(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with queue_on(url) as queue:
        job = queue.submit("shout", LARGE)
    monkeypatch.chdir(tmp_path / "there")
    with queue_on(url) as queue:
        assert drain(queue).completed == 1
        assert result_in(queue, job.id) == LARGE.upper()
        queue.discard(job.id)
        assert queue.blobs is not None
        assert queue.blobs.clean_up().looked_at == 0
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "here", tmp_path / "there"]


def test_they_follow_a_store_that_is_moved_there_and_back(url: str, tmp_path: Path) -> None:
    first, last = str(tmp_path / "jobs.db"), str(tmp_path / "back.db")
    with queue_on(first) as queue:
        done = queue.submit("shout", LARGE)
        assert drain(queue).completed == 1
        waiting = queue.submit("shout", LARGE + "b")
    assert move_all(first, url) == 3
    with queue_on(url) as queue:
        assert result_in(queue, done.id) == LARGE.upper()
        assert drain(queue).completed == 1
        assert result_in(queue, waiting.id) == LARGE.upper() + "B"
    assert move_all(url, last) == 4
    with queue_on(last) as queue:
        for job, result in ((done, LARGE), (waiting, LARGE + "b")):
            assert result_in(queue, job.id) == result.upper()


def test_a_move_that_fails_among_the_blobs_is_gone_on_with(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tmp_path / "jobs.db")
    with queue_on(source) as queue:
        jobs = [queue.submit("shout", LARGE + str(number)) for number in range(3)]
    put: list[str] = []
    honest = TableBlobs.put

    def failing(self: TableBlobs, key: str, data: bytes) -> None:
        if len(put) == 2:
            raise StoreUnavailableError("the cable was pulled")
        put.append(key)
        honest(self, key, data)

    with monkeypatch.context() as patched:
        patched.setattr(TableBlobs, "put", failing)
        with pytest.raises(StoreUnavailableError):
            move_all(source, url)
        put.clear()
        assert move_all(source, url) == 3
    assert len(put) == 1, "what had been copied was copied again"
    with queue_on(url) as queue:
        assert drain(queue).completed == 3
        assert [result_in(queue, job.id)[-1] for job in jobs] == ["0", "1", "2"]
