from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasehold import (
    Constant,
    Delays,
    DuplicateJobError,
    Exponential,
    IdempotencyConflictError,
    InvalidJobError,
    NewJob,
    PayloadError,
    QueueClosedError,
    Status,
    TaskNotImportableError,
    TaskQueue,
)
from leasehold.core.model.job import Draft
from leasehold.env import ManualClock
from leasehold.queue.options import draft_fields

WAIT = 30
LATER = datetime(2031, 1, 1, tzinfo=UTC)


def add(one: int, two: int = 1) -> int:
    return one + two


def takes_priority(priority: int, delay: int) -> int:
    return priority + delay


async def later(value: str) -> str:
    return value.upper()


def born(when: datetime) -> datetime:
    return when + timedelta(days=1)


def test_a_plain_function_needs_no_decorator(queue: TaskQueue) -> None:
    job = queue.submit(add, 1, two=2)
    assert job.result(WAIT) == 3
    assert job.job().task == f"{__name__}:add"


def test_an_async_function_runs_too(queue: TaskQueue) -> None:
    assert queue.submit(later, "a").result(WAIT) == "A"


def test_results_are_rebuilt_by_the_return_hint(queue: TaskQueue) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    job = queue.submit(born, moment)
    assert job.result(WAIT) == moment + timedelta(days=1)
    assert queue.get_result(job.id, WAIT) == moment + timedelta(days=1)


def test_a_decorated_task_is_called_and_submitted_alike(queue: TaskQueue) -> None:
    task = queue.task(priority="high", max_retries=7, metadata={"team": "a"})(add)
    assert task(1, 2) == 3
    job = task.submit(1, 2)
    assert job.result(WAIT) == 3
    snapshot = job.job()
    assert (snapshot.priority, snapshot.max_retries) == (75, 7)
    assert snapshot.metadata == {"team": "a"}
    assert task.__name__ == "add"


def test_options_make_another_task_and_leave_the_first(still: TaskQueue) -> None:
    task = still.task(max_retries=7, retry=[1, 2])(add)
    job = task.options(priority=90, delay=30, job_id="mine").submit(1)
    snapshot = job.job()
    assert (job.id, snapshot.priority, snapshot.max_retries) == ("mine", 90, 7)
    assert snapshot.status is Status.SCHEDULED
    assert snapshot.retry == Delays((1, 2))
    assert task.submit(1).job().priority == 50


def test_a_tasks_own_submit_reserves_no_names(queue: TaskQueue) -> None:
    assert queue.task(takes_priority).submit(priority=1, delay=2).result(WAIT) == 3


@pytest.mark.parametrize(
    ("option", "field", "expected"),
    [
        ({"priority": "critical"}, "priority", 100),
        ({"max_retries": 0}, "max_retries", 0),
        ({"timeout_seconds": 5}, "timeout_seconds", 5),
        ({"lease_seconds": 60}, "lease_seconds", 60),
        ({"retry": 5}, "retry", Constant(5)),
        ({"retry": [1, 5]}, "retry", Delays((1, 5))),
        ({"retry": Exponential(cap_seconds=9)}, "retry", Exponential(cap_seconds=9)),
        ({"queue": "mail"}, "queue", "mail"),
        ({"metadata": {"a": 1}}, "metadata", {"a": 1}),
        ({"idempotency_key": "k"}, "idempotency_key", "k"),
        (
            {"deadline": datetime(2031, 1, 1, tzinfo=UTC)},
            "deadline",
            datetime(2031, 1, 1, tzinfo=UTC),
        ),
        ({"run_at": LATER}, "run_at", LATER),
        ({"task_name": "other"}, "task", "other"),
        ({"parent_id": "group"}, "parent_id", "group"),
    ],
)
def test_every_option_reaches_the_job(
    still: TaskQueue, option: dict[str, Any], field: str, expected: Any
) -> None:
    assert getattr(still.submit(add, 1, **option).job(), field) == expected


def test_a_delay_counts_from_now(still: TaskQueue, clock: ManualClock) -> None:
    job = still.submit(add, 1, delay=timedelta(minutes=1))
    assert job.job().run_at == clock.now() + timedelta(minutes=1)


@pytest.mark.parametrize(
    "option",
    [
        {"priority": 101},
        {"priority": "urgent"},
        {"max_retries": -1},
        {"max_retries": "3"},
        {"timeout_seconds": 0},
        {"delay": "soon"},
        {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - without a zone, on purpose.
        {"run_at": "2030"},
        {"retry": add},
        {"retry": []},
        {"queue": ""},
        {"job_id": "a\nb"},
        {"delay": 1, "run_at": LATER},
    ],
)
def test_a_bad_option_is_refused_and_nothing_is_stored(
    still: TaskQueue, option: dict[str, Any]
) -> None:
    with pytest.raises(InvalidJobError):
        still.submit(add, 1, **option)
    assert list(still.search()) == []


def test_a_bad_call_is_refused_when_it_is_submitted(still: TaskQueue) -> None:
    with pytest.raises(InvalidJobError, match="add"):
        still.submit(add)
    with pytest.raises(PayloadError, match="'one'"):
        still.submit(add, object())
    with pytest.raises(InvalidJobError, match="not 5"):
        still.submit(5)  # type: ignore[call-overload]


def test_the_same_id_twice_is_refused(still: TaskQueue) -> None:
    still.submit(add, 1, job_id="a")
    with pytest.raises(DuplicateJobError):
        still.submit(add, 1, job_id="a")


def test_the_same_idempotency_key_finds_the_first_job(still: TaskQueue) -> None:
    first = still.submit(add, 1, idempotency_key="k")
    second = still.submit(add, 1, idempotency_key="k")
    assert (second.id, second.is_duplicate, first.is_duplicate) == (first.id, True, False)
    with pytest.raises(IdempotencyConflictError):
        still.submit(add, 2, idempotency_key="k")


def test_dependencies_may_be_handles(still: TaskQueue) -> None:
    first = still.submit(add, 1)
    assert draft_fields({"depends_on": first}) == {"depends_on": (first.id,)}
    assert draft_fields({"depends_on": [first, "b"]}) == {"depends_on": (first.id, "b")}


def test_lambdas_and_local_functions_are_refused(still: TaskQueue) -> None:
    def local() -> None: ...

    with pytest.raises(TaskNotImportableError, match="lambda"):
        still.submit(lambda: 1)
    with pytest.raises(TaskNotImportableError, match="local"):
        still.submit(local)


def test_a_local_function_may_be_given_a_name(queue: TaskQueue) -> None:
    @queue.task(name="local")
    def local(value: int) -> int:
        return value * 2

    assert local.submit(4).result(WAIT) == 8


def test_two_functions_cannot_share_a_name(still: TaskQueue) -> None:
    still.task(name="same")(add)
    with pytest.raises(InvalidJobError, match="already registered"):
        still.task(name="same")(born)


def test_a_task_may_be_named_by_its_name_alone(still: TaskQueue) -> None:
    job = still.submit("elsewhere:run", 1, key="a", priority="low").job()
    assert job.payload == {"args": [1], "kwargs": {"key": "a"}}
    assert (job.task, job.priority) == ("elsewhere:run", 25)


def test_a_function_or_a_name_means_its_task_with_its_options(still: TaskQueue) -> None:
    still.task(name="sum", priority="high", permanent=OSError)(add)
    assert still.submit("sum", 1).job().priority == 75
    job = still.submit(add, 1).job()
    assert (job.task, job.priority) == ("sum", 75)
    assert OSError in still.registry.find("sum").permanent
    assert still.submit(add, 1, task_name="other").job().priority == 50


def test_jobs_go_to_the_first_queue_of_the_workers(make_queue: Callable[..., TaskQueue]) -> None:
    queue = make_queue(num_workers=1, queues=("mail", "other"))
    job = queue.submit(add, 1)
    assert job.result(WAIT) == 2
    assert job.job().queue == "mail"


# -- many ----------------------------------------------------------------------------------------


def test_ten_thousand_jobs_in_one_call(still: TaskQueue) -> None:
    task = still.task(add)
    handles = still.submit_many(task.job(number) for number in range(10_000))
    assert len({handle.id for handle in handles}) == 10_000
    assert still.get_queue_stats()["pending"] == 10_000
    assert handles[77].job().payload["args"] == [77]


def test_many_is_all_or_nothing(still: TaskQueue) -> None:
    jobs = [NewJob(add, (1,)), NewJob(add, (1,), job_id="x"), NewJob(add, (1,), job_id="x")]
    with pytest.raises(DuplicateJobError):
        still.submit_many(jobs)
    with pytest.raises(PayloadError):
        still.submit_many([NewJob(add, (1,)), NewJob(add, (object(),))])
    assert list(still.search()) == []


def test_partial_reports_each(still: TaskQueue) -> None:
    answers = still.submit_many(
        [
            NewJob(add, (1,), job_id="good"),
            NewJob(add, (object(),)),
            NewJob(add, (1,), job_id="good"),
            NewJob("named", document={"any": ["thing"]}),
        ],
        partial=True,
    )
    assert [type(answer).__name__ for answer in answers] == [
        "JobHandle",
        "PayloadError",
        "DuplicateJobError",
        "JobHandle",
    ]
    assert still.get("good").payload == {"args": [1], "kwargs": {}}
    assert still.get_queue_stats()["pending"] == 2


def test_a_new_job_has_arguments_or_a_document(still: TaskQueue) -> None:
    with pytest.raises(InvalidJobError, match="either"):
        NewJob(add, (1,), document={})
    with pytest.raises(InvalidJobError, match="unknown option 'colour'"):
        still.submit_many([NewJob(add, (1,), colour="red")])  # type: ignore[call-arg]
    with pytest.raises(InvalidJobError, match="NewJob"):
        still.submit_many([add])  # type: ignore[list-item]


def test_a_command_is_a_document(still: TaskQueue) -> None:
    listed = still.submit_command(["echo", "a b"], env={"X": "1"}, priority="high").job()
    shell = still.submit_command("echo $X | sort").job()
    assert listed.payload == {"argv": ["echo", "a b"], "env": {"X": "1"}}
    assert (listed.task, listed.priority) == ("command", 75)
    assert shell.payload == {"shell": "echo $X | sort"}
    with pytest.raises(InvalidJobError, match="empty"):
        still.submit_command([])


# -- hooks and the end ---------------------------------------------------------------------------


def test_on_submit_is_told_and_its_failure_hurts_nobody(
    make_queue: Callable[..., TaskQueue],
) -> None:
    seen: list[Draft] = []

    def hook(draft: Draft) -> None:
        seen.append(draft)
        raise RuntimeError("broken hook")

    queue = make_queue(num_workers=0, on_submit=hook)
    job = queue.submit(add, 1, idempotency_key="k")
    queue.submit(add, 1, idempotency_key="k")
    assert [draft.id for draft in seen] == [job.id]


def test_hooks_hear_of_the_whole_life(make_queue: Callable[..., TaskQueue]) -> None:
    heard: list[str] = []
    all_heard = threading.Event()

    def hook(name: str) -> Callable[..., None]:
        def told(*_: object) -> None:
            heard.append(name)
            if len(heard) == 5:
                all_heard.set()

        return told

    queue = make_queue(
        num_workers=1,
        **{name: hook(name) for name in ("on_start", "on_success", "on_failure", "on_dead")},
    )
    queue.submit(add, 1).wait(WAIT)
    queue.submit(add, "text").wait(WAIT)
    assert all_heard.wait(WAIT)
    assert sorted(heard) == ["on_dead", "on_failure", "on_start", "on_start", "on_success"]


def test_after_shutdown_nothing_is_accepted(queue: TaskQueue) -> None:
    task = queue.task(add)
    queue.shutdown()
    queue.shutdown()
    for submit in (
        lambda: queue.submit(add, 1),
        lambda: task.submit(1),
        lambda: queue.submit_many([task.job(1)]),
    ):
        with pytest.raises(QueueClosedError):
            submit()


def test_a_task_without_code_here_is_named_in_errors(still: TaskQueue) -> None:
    with pytest.raises(PayloadError, match="mail:send"):
        still.submit("mail:send", object())
