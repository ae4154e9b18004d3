"""SUB: submit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Submitted
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    DuplicateJobError,
    IdempotencyConflictError,
    InvalidJobError,
    PayloadTooLargeError,
    UnsupportedError,
)
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

DAY_SECONDS = 24 * 3600


def stored(store: Store) -> set[str]:
    return {job.id for job in store.search(JobFilter()).jobs}


class SubmittingClauses(ConformanceBase):
    def test_sub_1_all_or_nothing(self, store: Store) -> None:
        drafts = [draft("one", idempotency_key="key"), draft("two"), draft("bad", priority=101)]
        with pytest.raises(InvalidJobError, match="priority"):
            store.submit(drafts)
        assert stored(store) == set()
        assert store.stats().submitted == 0
        assert lease_all(store) == []
        # Neither an id nor a key was left behind.
        (answer, _) = submit(store, *drafts[:2])
        assert not answer.is_duplicate

    def test_sub_1_partial_stores_the_good_and_answers_each(self, store: Store) -> None:
        answers = store.submit(
            [draft("one"), draft("bad", task=""), draft("one"), draft("two")], partial=True
        )
        assert answers[0] == Submitted("one", Status.PENDING)
        assert isinstance(answers[1], InvalidJobError)
        assert isinstance(answers[2], DuplicateJobError)
        assert answers[3] == Submitted("two", Status.PENDING)
        assert stored(store) == {"one", "two"}

    def test_sub_1_no_drafts_no_answers(self, store: Store) -> None:
        assert store.submit([]) == []

    def test_sub_2_the_status_follows_the_time(self, store: Store) -> None:
        now = store.now()
        answers = submit(
            store,
            draft("now"),
            draft("past", run_at=now - timedelta(seconds=1)),
            draft("no-delay", delay_seconds=0),
            draft("later", run_at=now + timedelta(seconds=1)),
            draft("delayed", delay_seconds=1),
        )
        statuses = [answer.status for answer in answers]
        assert statuses == [Status.PENDING] * 3 + [Status.SCHEDULED] * 2
        assert get(store, "later").run_at == get(store, "delayed").run_at == now + timedelta(0, 1)
        # A job is due at the earliest when it is submitted, whatever its draft says.
        assert get(store, "past").run_at == get(store, "now").run_at == now

    def test_sub_2_depends_on_blocks_or_is_refused(self, store: Store) -> None:
        submit(store, draft("first"))
        try:
            (answer,) = submit(store, draft("second", depends_on=("first",)))
        except UnsupportedError:
            assert stored(store) == {"first"}
        else:
            assert answer.status is Status.BLOCKED

    def test_sub_2_a_job_keeps_what_the_draft_said(self, store: Store) -> None:
        now = store.now()
        options: dict[str, Any] = {
            "task": "tasks:work", "payload": b'{"args":[1],"kwargs":{}}', "queue": "letters",
            "priority": 75, "max_retries": 7, "deadline": now + timedelta(hours=1),
            "timeout_seconds": 1.5, "lease_seconds": 20.0,
            "metadata": {"tenant": "a", "size": 3, "ratio": 0.5, "vip": True, "none": None},
            "idempotency_key": "key", "parent_id": "parent",
        }  # fmt: skip
        submit(store, draft(**options, start_within_seconds=90))
        job = get(store)
        kept = {name: getattr(job, name) for name in options if name != "payload"}
        assert kept | {"payload": job.payload_data} == options
        assert (job.retry, job.allowance) == (draft().retry, 8)
        assert (job.start_by, job.created_at, job.run_at) == (now + timedelta(0, 90), now, now)

    def test_sub_2_the_callers_own_data_stays_the_callers(self, store: Store) -> None:
        metadata = {"tenant": "a"}
        submit(store, draft(metadata=metadata))
        metadata["tenant"] = "b"
        assert get(store).metadata == {"tenant": "a"}

    def test_sub_3_an_id_is_used_once(self, store: Store) -> None:
        submit(store, draft("one"))
        with pytest.raises(DuplicateJobError, match="one"):
            store.submit([draft("one")])
        with pytest.raises(DuplicateJobError, match="two"):
            store.submit([draft("two"), draft("two")])
        settle(store, lease_one(store), Complete())
        with pytest.raises(DuplicateJobError, match="one"):
            store.submit([draft("one")])
        assert stored(store) == {"one"}

    def test_sub_3_the_same_submit_may_be_repeated_with_its_key(self, store: Store) -> None:
        submit(store, draft("one", idempotency_key="key"))
        (again,) = submit(store, draft("one", idempotency_key="key"))
        assert again == Submitted("one", Status.PENDING, is_duplicate=True)

    def test_sub_4_a_known_key_answers_with_the_first_job(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one", idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        clock.advance(600)
        (again, other_queue, other_key) = submit(
            store,
            draft("two", idempotency_key="key"),
            draft("three", idempotency_key="key", queue="other"),
            draft("four", idempotency_key="other"),
        )
        assert again == Submitted("one", Status.COMPLETED, is_duplicate=True)
        assert not other_queue.is_duplicate
        assert not other_key.is_duplicate
        assert stored(store) == {"one", "three", "four"}
        assert store.stats().submitted == 3

    def test_sub_4_a_key_is_known_within_one_call(self, store: Store) -> None:
        answers = submit(
            store, draft("one", idempotency_key="key"), draft("two", idempotency_key="key")
        )
        assert [(answer.id, answer.is_duplicate) for answer in answers] == [
            ("one", False),
            ("one", True),
        ]

    def test_sub_4_a_key_is_forgotten_after_a_day(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one", idempotency_key="key"))
        clock.advance(DAY_SECONDS - 0.5)
        (again,) = submit(store, draft("two", idempotency_key="key"))
        assert again.is_duplicate
        clock.advance(0.5)
        (fresh,) = submit(store, draft("three", idempotency_key="key", payload=b"{}"))
        assert (fresh.id, fresh.is_duplicate) == ("three", False)
        (again,) = submit(store, draft("four", idempotency_key="key", payload=b"{}"))
        assert (again.id, again.is_duplicate) == ("three", True)

    @on_one_store("change", [{"task": "x"}, {"payload": b"{}"}, {"codec": "pickle"}])
    def test_sub_4_a_key_is_not_for_another_job(self, store: Store, change: dict[str, Any]) -> None:
        submit(store, draft("one", idempotency_key="key"))
        with pytest.raises(IdempotencyConflictError, match="key"):
            store.submit([draft("two", idempotency_key="key", **change)])
        assert stored(store) == {"one"}

    @on_one_store(
        "bad",
        [
            {"id": ""}, {"id": "a\nb"}, {"id": "x" * 256}, {"task": ""}, {"queue": "\x1b[31m"},
            {"priority": -1}, {"priority": 101}, {"max_retries": -1}, {"delay_seconds": -1.0},
            {"delay_seconds": float("nan")}, {"lease_seconds": 0.5}, {"timeout_seconds": 1e30},
            {"idempotency_key": ""},
        ],
    )  # fmt: skip
    def test_sub_5_a_draft_is_checked(self, store: Store, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidJobError):
            store.submit([draft(**bad)])
        assert stored(store) == set()

    def test_sub_5_the_payload_has_a_limit(self, store: Store) -> None:
        submit(store, draft("fits", payload=b'"' + b"x" * (PAYLOAD_BYTES_MAX - 2) + b'"'))
        with pytest.raises(PayloadTooLargeError, match="large"):
            store.submit([draft("large", payload=b"x" * (PAYLOAD_BYTES_MAX + 1))])
        assert stored(store) == {"fits"}

    def test_sub_6_first_in_first_out(self, store: Store, clock: ManualClock) -> None:
        # The ids are not in the order of submission, and the clock stands still for most of them.
        names = ["z", "m", "a", "q", "b", "y"]
        store.submit([draft(name) for name in names[:3]])
        submit(store, draft(names[3]))
        clock.advance(1)
        store.submit([draft(name) for name in names[4:]])
        assert [lease.job_id for lease in lease_all(store)] == names

    def test_sub_6_the_defaults_of_a_draft(self, store: Store) -> None:
        submit(store, Draft(id="plain", task="work"))
        job = get(store, "plain")
        assert (job.queue, job.priority, job.max_retries, job.allowance) == ("default", 50, 3, 4)
        assert (job.attempts, job.lease_version, job.worker) == (0, 0, None)
        assert job.payload == {"args": [], "kwargs": {}}
