"""Workflows whose jobs are called with what the jobs before them returned."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from leasehold import NewJob, TaskQueue, Workflow, chain, group
from leasehold.env import ManualClock
from leasehold.errors import InvalidJobError, PayloadError, ResultExpiredError

from .conftest import MakeQueue


@dataclass
class Page:
    url: str
    words: int


def test_a_chain_passes_each_result_on(queue: TaskQueue) -> None:
    @queue.task(name="fetch")
    def fetch(url: str) -> Page:
        return Page(url, len(url))

    @queue.task(name="words")
    def words(page: Page, times: int = 1) -> int:
        assert isinstance(page, Page)
        return page.words * times

    @queue.task(name="told")
    async def told(count: int, *, unit: str = "words") -> str:
        return f"{count} {unit}"

    run = queue.submit_workflow(
        chain(fetch.job("a.example"))
        .then(NewJob(words, (2,)), pass_result=True)
        .then(NewJob(told, kwargs={"unit": "letters"}), pass_result=True)
    )
    assert run.last.result(timeout=60) == "18 letters"
    assert list(run) == ["1", "2", "3"]
    run = queue.submit_workflow(chain(fetch.job("b.example"), words, told, pass_result=True))
    assert run.last.result(timeout=60) == "9 words"


def test_what_follows_a_group_is_given_a_list_even_of_one_or_none(queue: TaskQueue) -> None:
    @queue.task(name="square")
    def square(number: int) -> int:
        return number * number

    @queue.task(name="total")
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    for numbers, expected in (((1, 2, 3), 14), ((5,), 25), ((), 0)):
        drawn = group(*(square.job(each) for each in numbers)).then(total, pass_result=True)
        assert queue.submit_workflow(drawn)["then"].result(timeout=60) == expected


def test_a_drawn_workflow_says_by_its_names_what_is_passed(queue: TaskQueue) -> None:
    drawn = Workflow()
    drawn.add("largest", NewJob(max), after=["two", "three"], pass_result=True)
    drawn.add("power", NewJob(pow, (2,)), after="largest", pass_result=True)
    drawn.add("two", NewJob(int, ("2",)))
    drawn.add("three", NewJob(int, ("3",)))
    assert queue.submit_workflow(drawn)["power"].result(timeout=60) == 9


def test_a_dependency_that_left_no_result_is_passed_as_none(queue: TaskQueue) -> None:
    @queue.task(name="broken")
    def broken() -> int:
        raise ValueError

    @queue.task(name="or-else")
    def or_else(number: int | None) -> str:
        return repr(number)

    after = or_else.options(on_dependency_failure="ignore")
    run = queue.submit_workflow(chain(broken.job()).then(after, pass_result=True))
    assert run.last.result(timeout=60) == "None"


def test_a_consumer_of_ones_own_gets_them_as_arguments(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    queue.submit_workflow(chain(NewJob("one")).then(NewJob("two", ("more",)), pass_result=True))
    first = queue.lease(wait="0s")
    assert first is not None
    queue.ack(first, 7)
    second = queue.lease(wait="0s")
    assert second is not None
    assert queue.arguments(second) == ([7, "more"], {})


def test_what_cannot_be_is_refused_before_anything_is_stored(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)

    @queue.task(name="nothing")
    def nothing() -> None: ...

    @queue.task(name="two")
    def two(first: int, second: int) -> None: ...

    def refused(drawn: Workflow, match: str) -> None:
        with pytest.raises((InvalidJobError, PayloadError), match=match):
            queue.submit_workflow(drawn)

    refused(chain(nothing, nothing, pass_result=True), "too many positional arguments")
    refused(chain(nothing, two, pass_result=True), "missing a required argument: 'second'")
    refused(
        chain(nothing).then(NewJob(two, (object(),)), pass_result=True),
        "argument 'second' of .*two",
    )
    elsewhere = queue.submit("elsewhere")
    refused(
        chain(nothing).then(NewJob(two, (1,), depends_on=elsewhere), pass_result=True),
        "cannot depend on others too",
    )
    refused(chain(nothing).then(NewJob("two", document={"a": 1}), pass_result=True), "a document")
    with pytest.raises(InvalidJobError, match="comes after no job whose result"):
        Workflow().then(nothing, pass_result=True)
    assert queue.count().jobs == 1


def test_a_result_that_has_expired_is_not_passed_as_none(
    still: TaskQueue, clock: ManualClock
) -> None:
    first = still.submit("first", result_ttl_seconds=1)
    then = still.submit("then", depends_on=[first])
    lease = still.lease()
    assert lease is not None
    still.ack(lease, 7)
    assert still.dependency_results(then) == {first.id: 7}
    clock.advance(2)
    with pytest.raises(ResultExpiredError, match=f"replay job {first.id} first"):
        still.dependency_results(then)


def test_a_dependency_that_is_gone_is_not_passed_as_none(still: TaskQueue) -> None:
    """Nobody deletes what a job still waits for; but one that is replayed may find it gone."""
    first = still.submit("first")
    then = still.submit("then", depends_on=[first])
    lease = still.lease()
    assert lease is not None
    still.ack(lease, 7)
    still.cancel(then)
    still.discard(first)
    still.replay(then)
    with pytest.raises(ResultExpiredError, match=f"depends on job {first.id}, whose result cannot"):
        still.dependency_results(then)


def test_a_dependency_that_failed_is_left_out(still: TaskQueue) -> None:
    first = still.submit("first", max_retries=0)
    then = still.submit("then", depends_on=[first], on_dependency_failure="ignore")
    lease = still.lease()
    assert lease is not None
    still.nack(lease, requeue=False)
    assert still.dependency_results(then) == {}
