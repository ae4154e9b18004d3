"""Subclasses of text and numbers (numpy.float64, Markup, enums) are stored as plain values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import pytest

from leasehold import InvalidFilterError, InvalidJobError, NewJob, TaskQueue

STORES = ["memory://", "jobs.db"]


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


class Team(str, Enum):  # noqa: UP042  # its str() is not its value
    RED = "red"


class Size(IntEnum):
    LARGE = 9


METADATA: dict[str, Any] = {
    Text("name"): Text("ada"),
    "score": Number(0.5),
    "team": Team.RED,
    "size": Size.LARGE,
}
PLAIN: dict[str, Any] = {"name": "ada", "score": 0.5, "team": "red", "size": 9}


@pytest.fixture(params=STORES)
def queue(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TaskQueue]:
    monkeypatch.chdir(tmp_path)
    with TaskQueue(request.param, num_workers=0) as opened:
        yield opened


def test_they_are_stored_as_plain_values(queue: TaskQueue) -> None:
    first = queue.submit("t", job_id=Text("first"), metadata=METADATA, idempotency_key=Text("k"))
    second = queue.submit("t", depends_on=[Text("first")], queue=Team.RED, limit_key=Text("key"))
    kept = queue.get(first)
    assert kept.metadata == PLAIN
    assert {type(each) for each in (kept.metadata or {}).values()} == {str, float, int}
    assert type(kept.id) is type(kept.idempotency_key) is str
    assert queue.get(second).queue == "red"
    assert queue.get(second).limit_key == "key"


def test_they_are_found_by_the_same_values(queue: TaskQueue) -> None:
    queue.submit("t", job_id="first", metadata=PLAIN, queue="red")
    by: list[dict[str, Any]] = [
        {"metadata": METADATA},
        {"queue": Team.RED},
        {"ids": [Text("first")]},
    ]
    for fields in by:
        assert [job.id for job in queue.search(**fields)] == ["first"]
    assert queue.cancel(Text("first")).is_done


def test_one_of_them_does_not_fail_the_submits_beside_it(queue: TaskQueue) -> None:
    async def submit() -> list[str]:
        jobs = await asyncio.gather(
            *(queue.asubmit("t", n) for n in range(8)), queue.asubmit("t", metadata=METADATA)
        )
        return [job.id for job in jobs]

    assert len(set(asyncio.run(submit()))) == 9
    assert len(queue.submit_many([NewJob("t"), NewJob("t", metadata=METADATA)])) == 2


@pytest.mark.parametrize("name", [None, 5])
def test_a_queue_that_is_no_text_is_refused_by_filters(queue: TaskQueue, name: Any) -> None:
    with pytest.raises(InvalidFilterError, match="a queue is named by text"):
        list(queue.search(queue=name))


@pytest.mark.parametrize("depth", [2, 5_000])
def test_nested_metadata_is_refused_however_deep(queue: TaskQueue, depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = {"a": nested}
    with pytest.raises(InvalidJobError, match="metadata maps names"):
        queue.submit("t", metadata=nested)


def test_metadata_that_is_a_huge_number_is_refused(queue: TaskQueue) -> None:
    huge: Any = 10**5000
    for metadata in (huge, {"a": huge}):
        with pytest.raises(InvalidJobError, match="metadata"):
            queue.submit("t", metadata=metadata)
