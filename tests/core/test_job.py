from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.history import Attempt
from leasehold.core.model.job import Draft, Job, Priority, priority_of
from leasehold.core.model.status import Status
from leasehold.errors import InvalidJobError, PayloadError

START = datetime(2030, 1, 1, tzinfo=UTC)
NAIVE = START.replace(tzinfo=None)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(**options: Any) -> Job:
    defaults: dict[str, Any] = {
        "id": "job", "queue": "default", "task": "work", "status": Status.PENDING, "priority": 50,
        "payload_data": b'{"args":[1],"kwargs":{"a":2}}', "created_at": START,
        "updated_at": START, "run_at": START,
    }  # fmt: skip
    return Job(**defaults | options)


@given(st.integers(0, 100))
def test_a_priority_is_a_number(value: int) -> None:
    assert priority_of(value) == value


@pytest.mark.parametrize(
    ("name", "value"), [("low", 25), ("medium", 50), ("high", 75), ("critical", 100)]
)
def test_a_priority_may_have_a_name(name: Any, value: int) -> None:
    assert priority_of(name) == value == Priority[name.upper()]


@pytest.mark.parametrize("bad", [-1, 101, True, 1.5, "urgent", None])
def test_what_is_no_priority(bad: Any) -> None:
    with pytest.raises(InvalidJobError, match="priority"):
        priority_of(bad)


@given(
    job_id=st.text(min_size=1, max_size=255).filter(str.isprintable),
    priority=st.integers(0, 100),
    max_retries=st.integers(0, 1_000_000),
    seconds=st.none() | st.floats(0.001, 1e8),
    lease_seconds=st.none() | st.floats(1, 1e8),
)
def test_a_good_draft_passes(
    job_id: str,
    priority: int,
    max_retries: int,
    seconds: float | None,
    lease_seconds: float | None,
) -> None:
    Draft(
        id=job_id, task="work", priority=priority, max_retries=max_retries,
        delay_seconds=seconds, timeout_seconds=seconds, lease_seconds=lease_seconds,
        start_within_seconds=seconds, deadline=START,
    ).check()  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""), ("id", "x" * 256), ("id", "a\x00b"), ("id", 7), ("task", ""), ("queue", "\n"),
        ("priority", -1), ("priority", 101), ("max_retries", -1), ("max_retries", 1_000_001),
        ("delay_seconds", -0.1), ("delay_seconds", math.nan), ("timeout_seconds", 0),
        ("lease_seconds", math.inf), ("lease_seconds", 0.9), ("start_within_seconds", 0),
        ("idempotency_key", ""), ("parent_id", "\x1b"), ("run_at", NAIVE),
        ("deadline", NAIVE),
    ],
)  # fmt: skip
def test_a_bad_draft_is_refused_and_the_field_named(field: str, value: Any) -> None:
    fields: dict[str, Any] = {"id": "job", "task": "work"} | {field: value}
    said = {"id": "job id", "delay_seconds": "delay"}.get(field, field)
    with pytest.raises(InvalidJobError, match=said):
        Draft(**fields).check()


def test_a_time_and_a_delay_exclude_each_other() -> None:
    with pytest.raises(InvalidJobError, match="not both"):
        Draft(id="job", task="work", run_at=START, delay_seconds=1).check()


def test_payload_and_result_are_data() -> None:
    assert job().payload == {"args": [1], "kwargs": {"a": 2}}
    assert job().result is None
    assert job(result_data=b"[1,2]").result == [1, 2]


def test_a_pickle_is_not_read_without_its_key() -> None:
    pickled = job(codec="pickle", result_data=b"x", result_codec="pickle")
    with pytest.raises(PayloadError, match="payload of job job"):
        _ = pickled.payload
    with pytest.raises(PayloadError, match="result of job job"):
        _ = pickled.result


def test_what_a_status_means() -> None:
    assert [s for s in Status if job(status=s).is_done] == [Status.COMPLETED, Status.CANCELLED]
    assert {s for s in Status if job(status=s).is_terminal} == {
        Status.COMPLETED, Status.DEAD, Status.CANCELLED,
    }  # fmt: skip
    assert [s for s in Status if job(status=s).will_retry] == [Status.FAILED]


def test_how_long_things_took() -> None:
    waiting = job(run_at=at(10))
    assert (waiting.age_seconds(at(5)), waiting.wait_seconds(at(5))) == (5, 0)
    assert waiting.wait_seconds(at(25)) == 15
    assert waiting.run_seconds(at(25)) is waiting.seconds_since_completion(at(25)) is None
    running = job(run_at=at(10), started_at=at(12), status=Status.RUNNING)
    assert (running.wait_seconds(at(99)), running.run_seconds(at(20))) == (2, 8)
    done = job(started_at=at(12), completed_at=at(15), status=Status.COMPLETED)
    assert (done.run_seconds(at(99)), done.seconds_since_completion(at(20))) == (3, 5)
    retrying = job(started_at=at(12), updated_at=at(14), status=Status.FAILED)
    assert retrying.run_seconds(at(99)) == 2


@given(run_at=st.floats(-1e6, 1e6), started=st.none() | st.floats(0, 1e6), now=st.floats(0, 1e6))
def test_no_duration_is_negative(run_at: float, started: float | None, now: float) -> None:
    some = job(
        run_at=at(run_at),
        started_at=None if started is None else at(started),
        status=Status.RUNNING,
    )
    assert some.wait_seconds(at(now)) >= 0
    assert (some.run_seconds(at(now)) or 0) >= 0


def test_an_attempt_knows_how_long_it_took() -> None:
    running = Attempt(job_id="job", lease_version=1, number=1, worker="w", started_at=START)
    assert running.duration_seconds is None
    ended = Attempt(
        job_id="job", lease_version=1, number=1, worker="w", started_at=START, ended_at=at(2.5)
    )
    assert ended.duration_seconds == 2.5


def test_a_snapshot_is_frozen() -> None:
    with pytest.raises(AttributeError):
        job().priority = 1  # type: ignore[misc]


@pytest.mark.parametrize("field", ["run_at", "deadline"])
@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "1969-12-31T23:59:59+00:00"])
def test_moments_that_no_store_can_keep_are_refused(field: str, text: str) -> None:
    moment = datetime.fromisoformat(text)
    with pytest.raises(InvalidJobError, match=f"{field} must be from 1970 to 9999"):
        Draft(id="a", task="t", **{field: moment}).check()  # type: ignore[arg-type]


class Number(float):
    __slots__ = ()


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize("metadata", [{"score": Number(0.5)}, {Text("a"): 1}, {"a": Text("b")}])
def test_a_draft_with_metadata_that_encoders_refuse_is_refused(metadata: dict[str, Any]) -> None:
    draft = Draft(id="job", queue="default", task="work", metadata=metadata)
    with pytest.raises(InvalidJobError, match="metadata maps names"):
        draft.check()
