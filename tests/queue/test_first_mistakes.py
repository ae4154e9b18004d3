"""What newcomers type first: the errors name what is right here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_overloads

import pytest

from leasehold import (
    InvalidFilterError,
    InvalidJobError,
    InvalidQueueError,
    InvalidSettingError,
    NewJob,
    QueueClosedError,
    TaskQueue,
    group,
)
from leasehold.core.model.lease import LeaseRequest
from leasehold.errors import ResultTimeoutError, TaskNotImportableError
from leasehold.queue.tasks import DECORATOR_OPTIONS, Tasks


def test_an_option_given_as_an_argument_is_sent_to_its_place(still: TaskQueue) -> None:
    @still.task(name="slow")
    def slow(seconds: int = 1) -> int:
        return seconds

    anything: Any = slow
    with pytest.raises(
        InvalidJobError, match=r"priority is an option: slow\.options\(priority=\.\.\.\)"
    ):
        anything.submit(priority="high")
    with pytest.raises(
        InvalidJobError, match=r"slow\.options\(job_id=\.\.\., delay=\.\.\.\)\.submit"
    ):
        anything.submit(1, job_id="two", delay=5)
    with pytest.raises(InvalidJobError) as refused:
        anything.submit(colour="red")
    assert "an option:" not in str(refused.value)


def test_what_newcomers_write_is_answered_with_what_is_meant(still: TaskQueue) -> None:
    anything: Any = still
    listed = r'queues must be a list of names: did you mean \["mail", "default"\]\?'
    with pytest.raises(ValueError, match=listed):
        TaskQueue("memory://", queues="mail,default")
    with pytest.raises(ValueError, match=listed):
        still.run_worker(queues="mail, default", until_empty=True)
    TaskQueue("memory://", queues=["mail,default"]).shutdown()
    with pytest.raises(InvalidFilterError, match=r"'limit'.*itertools\.islice\(queue\.search"):
        anything.search(limit=1)
    with pytest.raises(TaskNotImportableError, match=r"write @queue\.task\(name='mytask'\)"):
        anything.task("mytask")

    @still.task(name="work")
    def work() -> None: ...

    with pytest.raises(InvalidJobError, match=r"here it is the option delay=3$"):
        anything.submit(work, countdown=3)
    with pytest.raises(InvalidJobError, match=r"'countdown': did you mean 'delay'\?"):
        anything.task(name="other", countdown=3)


def test_a_parameter_of_that_name_is_no_option(still: TaskQueue) -> None:
    @still.task(name="rank")
    def rank(priority: str) -> str:
        return priority

    kept = {"args": [], "kwargs": {"priority": "of my own"}}
    assert rank.submit(priority="of my own").job().payload == kept
    with pytest.raises(InvalidJobError) as refused:
        rank.submit("one", priority="two")  # type: ignore[misc]
    assert "is an option" not in str(refused.value)


def test_the_names_of_other_queues_lead_to_ours(still: TaskQueue) -> None:
    @still.task(name="work")
    def work() -> None: ...

    anything: Any = work
    with pytest.raises(AttributeError, match=r"no attribute 'delay': here it is task\.submit"):
        anything.delay()
    with pytest.raises(AttributeError, match=r"task\.options\(\.\.\.\)\.submit"):
        anything.apply_async(countdown=5)
    queue: Any = still
    with pytest.raises(AttributeError, match=r"here it is queue\.submit\(function"):
        queue.enqueue(work)
    with pytest.raises(AttributeError, match=r"object has no attribute 'colour'$"):
        _ = queue.colour
    assert not hasattr(work, "colour")


def test_a_timeout_says_why_the_job_has_not_ended(still: TaskQueue) -> None:
    job = still.submit("work", queue="mail")
    with pytest.raises(ResultTimeoutError) as late:
        job.result(timeout=0)
    start_one = "No worker serves queue 'mail': start one."
    here = "No worker serves queue 'mail', and only this process can run the jobs of a store in"
    is_in_memory = still.store.describe()["kind"] == "memory"
    assert (here if is_in_memory else start_one) in str(late.value)
    assert str(late.value).endswith(f"Store: {still.store}")


def test_the_lease_of_an_empty_queue_is_nothing_to_settle(still: TaskQueue) -> None:
    nothing: Any = still.lease(wait=0)
    for settle in (still.ack, still.nack, still.extend):
        with pytest.raises(
            TypeError, match=r"lease\(\) found no job, so there is nothing to settle"
        ):
            settle(nothing)


@pytest.mark.parametrize("name", ["poll_interval", "lease_seconds", "heartbeat_interval"])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "soon"])
def test_a_queue_is_not_made_with_a_duration_that_is_none(name: str, bad: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        TaskQueue("memory://", **{name: bad})  # type: ignore[arg-type]


def test_nobody_waits_for_a_time_that_never_comes(still: TaskQueue) -> None:
    job = still.submit("t")
    with pytest.raises(ValueError, match="timeout must be seconds"):
        still.wait(job, timeout=float("nan"))


@pytest.mark.parametrize("bad", ["", "x" * 256, "two\nlines", "nul\0", "back\u202ewards"])
def test_a_worker_has_a_name_that_can_be_shown(still: TaskQueue, bad: str) -> None:
    with pytest.raises(ValueError, match="a worker's name has 1 to 255 printable characters"):
        LeaseRequest(worker=bad)
    if bad:
        with pytest.raises(ValueError, match="a worker's name"):
            still.lease(worker=bad, wait=0)


def test_options_of_the_wrong_kind_are_told(still: TaskQueue) -> None:
    anything: Any = still
    with pytest.raises(InvalidJobError, match="metadata maps names to values"):
        anything.submit("t", metadata="x")
    with pytest.raises(InvalidJobError, match=r"metadata has 20,001 characters; at most 16,384"):
        still.submit("t", metadata={"k": "x" * 20_000})
    for bad in (None, 5):
        with pytest.raises(InvalidJobError, match=f"each of depends_on must be .* not {bad}"):
            anything.submit("t", depends_on=[bad])
    still.submit("t")
    lease = still.lease(wait=0)
    assert lease is not None
    for seconds in (float("inf"), -1):
        with pytest.raises(ValueError, match="seconds must be above 0"):
            still.extend(lease, seconds)
    with pytest.raises(ValueError, match="seconds must be seconds, a timedelta or text"):
        still.extend(lease, float("nan"))


def test_a_misspelled_option_is_answered_with_those_of_its_call(still: TaskQueue) -> None:
    anything: Any = still

    @still.task(name="add")
    def add(left: int, right: int) -> int:
        return left + right

    with pytest.raises(
        InvalidJobError, match=r"'aliasses': did you mean 'aliases'\? The options are"
    ):
        anything.task(aliasses=["old"])
    with pytest.raises(
        InvalidJobError, match=r"unknown option 'bind'; there are aliases"
    ) as refused:
        anything.task(bind=True)
    assert "job_id" not in str(refused.value), "that is an option of a submit"
    with pytest.raises(InvalidJobError, match=r"did you mean 'priority'\?$"):
        anything.submit(add, 1, 2, prioritty=3)
    with pytest.raises(InvalidQueueError, match=r"did you mean 'max_concurrency'\?"):
        anything.create_queue("mail", max_concurency=3)
    with pytest.raises(InvalidJobError, match=r"^delay must be from 0 to ten years, not -1 s"):
        still.submit("later", delay=-1)
    with pytest.raises(TypeError, match="retryable must be an exception class or a list of them"):
        anything.task(retryable="ValueError")


def test_the_options_of_the_decorator_are_those_of_its_signature() -> None:
    typed = [each for each in get_overloads(Tasks.task) if "retryable" in each.__annotations__]
    parameters = inspect.signature(typed[0]).parameters
    assert set(DECORATOR_OPTIONS) == set(parameters) - {"self"}


def test_a_task_that_no_submit_could_use_is_refused_when_it_is_made(still: TaskQueue) -> None:
    with pytest.raises(InvalidJobError, match="timeout_seconds must be above 0"):
        still.task(timeout_seconds=0)(min)
    with pytest.raises(InvalidJobError, match="task"):
        still.task(name="")(min)

    class Mailer:
        def send(self, to: str) -> str:
            return to

        @staticmethod
        @still.task(name="post")
        def post(to: str) -> str:
            return to

    with pytest.raises(InvalidJobError, match=r"Mailer\.send is a method, and a job has no object"):
        still.task(name="send")(Mailer.send)
    assert still.get(Mailer.post.submit("ada").id).task == "post"


def test_a_misspelled_option_of_a_task_known_by_name_only_is_refused(still: TaskQueue) -> None:
    for wrong in ({"max_retires": 5}, {"delayy": 5}):
        [name] = wrong
        slip: Any = wrong
        with pytest.raises(InvalidJobError, match=rf"unknown option '{name}': did you mean"):
            still.submit("other.task", 1, **slip)
    anything: Any = {"delays": [1], "clients": 2, "headline": "a", "queued": True, "relay": 3}
    job = still.submit("other.task", **anything).job()
    assert still.payload_of(job) == {"args": [], "kwargs": anything}
    # A value is taken as it is: this is the way out.
    still.submit_many([NewJob("other.task", kwargs={"max_retires": 5})])


def test_options_of_other_queues_are_answered_with_the_name_here(still: TaskQueue) -> None:
    anything: Any = still
    for given, here in [
        ("timeout", "timeout_seconds"), ("backoff", "retry"), ("expires", "start_within_seconds")
    ]:  # fmt: skip
        with pytest.raises(InvalidJobError, match=f"'{given}': did you mean '{here}'"):
            still.submit_many([NewJob("work", **{given: 5})])  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match=r"did you mean 'backoff_base', .* or"):
        still.settings.set("backoff", 4)
    for name, here in [("workers", "num_workers"), ("pol_interval", "poll_interval")]:
        wrong: Any = {name: 4}
        with pytest.raises(TypeError, match=rf"TaskQueue\(\) .*{name!r}: did you mean {here!r}"):
            TaskQueue("memory://", **wrong)
    with pytest.raises(InvalidJobError, match=r"group\(\*jobs\)$"):
        group([NewJob("work")])  # type: ignore[arg-type]
    assert "num_workers" in inspect.signature(TaskQueue).parameters
    for name in ("timezone", "tz"):
        with pytest.raises(
            InvalidJobError, match=f"'{name}': did you mean 'zone'.*misfire.*overlap"
        ):
            anything.cron("* * * * *", name="tick", **{name: "UTC"})(print)


def test_every_call_of_a_queue_that_was_shut_down_has_the_same_error() -> None:
    queue = TaskQueue("memory://", num_workers=0)
    settings = queue.settings
    queue.shutdown()
    calls: list[Callable[[], Any]] = [
        lambda: queue.submit("work"),
        lambda: queue.create_queue("mail"),
        lambda: queue.get("job"),
        lambda: list(queue.search()),
        lambda: queue.cancel("job"),
        lambda: queue.settings.set("max_retries", 1),
        lambda: queue.pause_queue("mail"),
        lambda: list(queue.dead_letters),
        lambda: len(queue.dead_letters),
        lambda: list(queue.schedules),
    ]
    for call in calls:
        with pytest.raises(QueueClosedError, match="was shut down"):
            call()
    queue.start()
    queue.create_queue("mail")
    assert queue.settings is not settings
    queue.shutdown()
