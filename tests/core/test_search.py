from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasehold.core.model.job import Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import InvalidFilterError

START = datetime(2030, 1, 1, tzinfo=UTC)
LATER = START + timedelta(seconds=1)
JOB = Job(
    id="job", queue="letters", task="send", status=Status.DEAD, priority=60,
    payload_data='{"args":["Grüße"]}'.encode(), created_at=START, updated_at=START, run_at=START,
    error=JobError("ValueError", "No such person"), metadata={"tenant": "a", "none": None},
    idempotency_key="key", parent_id="family", completed_at=START,
)  # fmt: skip
BARE = Job(
    id="bare", queue="default", task="work", status=Status.PENDING, priority=0,
    payload_data=b"\xff", created_at=START, updated_at=START, run_at=START,
)  # fmt: skip


@pytest.mark.parametrize(
    ("fitting", "other"),
    [
        ({"ids": ("job", "x")}, {"ids": ()}),
        ({"queues": ("letters",)}, {"queues": ("default",)}),
        ({"statuses": (Status.DEAD, Status.FAILED)}, {"statuses": (Status.FAILED,)}),
        ({"tasks": ("send",)}, {"tasks": ("Send",)}),
        ({"priority_min": 60}, {"priority_min": 61}),
        ({"priority_max": 60}, {"priority_max": 59}),
        ({"created_from": START}, {"created_from": LATER}),
        ({"created_before": LATER}, {"created_before": START}),
        ({"finished_from": START}, {"finished_from": LATER}),
        ({"finished_before": LATER}, {"finished_before": START}),
        ({"metadata": {"tenant": "a"}}, {"metadata": {"tenant": "b"}}),
        ({"metadata": {"none": None}}, {"metadata": {"missing": None}}),
        ({"metadata": {}}, {"metadata": {"tenant": "a", "none": 1}}),
        ({"idempotency_key": "key"}, {"idempotency_key": "KEY"}),
        ({"parent_id": "family"}, {"parent_id": "fam"}),
        ({"error_text": "NO SUCH"}, {"error_text": "nobody"}),
        ({"error_text": "valueerror: no"}, {"error_text": "grüße"}),
        ({"text": "GRÜSSE".replace("SS", "ß")}, {"text": "hello"}),
        ({"text": "such person"}, {"text": "send"}),
    ],
)
def test_each_field_narrows(fitting: dict[str, Any], other: dict[str, Any]) -> None:
    assert JobFilter(**fitting).matches(JOB)
    assert not JobFilter(**other).matches(JOB)


def test_a_job_that_has_not_ended_fits_no_time_of_the_end() -> None:
    assert not JobFilter(finished_from=START).matches(BARE)
    assert not JobFilter(finished_before=LATER).matches(BARE)


def test_an_empty_filter_means_all() -> None:
    assert JobFilter().matches(JOB)
    assert JobFilter().matches(BARE)


def test_everything_given_must_hold() -> None:
    assert JobFilter(queues=("letters",), tasks=("send",), text="no such").matches(JOB)
    assert not JobFilter(queues=("letters",), tasks=("work",), text="no such").matches(JOB)


def test_a_job_without_error_or_metadata_fits_no_such_wish() -> None:
    assert not JobFilter(error_text="x").matches(BARE)
    assert not JobFilter(metadata={"tenant": "a"}).matches(BARE)
    assert not JobFilter(text="x").matches(BARE)


def test_a_text_that_is_too_long_to_be_looked_for_is_refused() -> None:
    assert JobFilter(text="x" * 4096, error_text="x" * 4096).text
    with pytest.raises(InvalidFilterError, match="at most 4,096 characters, not 3,000,000"):
        JobFilter(text="x" * 3_000_000)
    with pytest.raises(InvalidFilterError, match="at most 4,096 characters, not 4,097"):
        JobFilter(error_text="x" * 4097)


def test_priorities_are_bounded_by_what_a_database_holds() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    assert JobFilter(priority_min=lowest, priority_max=highest).matches(JOB)
    for beyond in (lowest - 1, highest + 1):
        with pytest.raises(InvalidFilterError, match="priorities are from 0 to 100"):
            JobFilter(priority_min=beyond)
