"""SUB-1, SUB-3, SUB-4: drafts of one partial call that get in each other's way."""

from __future__ import annotations

from typing import Any

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.errors import (
    DuplicateJobError,
    IdempotencyConflictError,
    InvalidJobError,
    LeaseholdError,
    QueueFullError,
    UnknownDependencyError,
)
from leasehold.testing.conformance.base import ConformanceBase, draft, get, submit


def partly(store: Store, *drafts: Draft) -> list[Any]:
    """What each was answered: its job's id, whether it is a duplicate, or the error's type."""
    answers: list[Submitted | LeaseholdError] = store.submit(drafts, partial=True)
    return [
        (each.id, each.is_duplicate) if isinstance(each, Submitted) else type(each)
        for each in answers
    ]


class SubmittingPartlyClauses(ConformanceBase):
    def test_sub_3_of_two_drafts_with_one_id_the_first_is_stored(self, store: Store) -> None:
        answers = partly(store, draft("x", payload=b"[1]"), draft("x", payload=b"[2]"), draft("y"))
        assert answers == [("x", False), DuplicateJobError, ("y", False)]
        assert get(store, "x").payload_data == b"[1]"
        assert store.stats().submitted == 2

    def test_sub_3_of_two_with_one_id_the_one_that_is_good(self, store: Store) -> None:
        submit(store, draft("first", idempotency_key="k"))
        bad_in_itself = draft("x", priority=101)
        bad_by_its_key = draft("y", idempotency_key="k", payload=b'"other"')
        answers = partly(
            store,
            bad_in_itself,
            bad_by_its_key,
            draft("after-x", depends_on=("x",)),
            draft("after-y", depends_on=("y",)),
            draft("x"),
            draft("y"),
        )
        assert answers == [
            InvalidJobError, IdempotencyConflictError, ("after-x", False), ("after-y", False),
            ("x", False), ("y", False),
        ]  # fmt: skip
        for name in ("x", "y"):
            assert get(store, f"after-{name}").depends_on == (name,)
            assert get(store, f"after-{name}").status is Status.BLOCKED
            assert get(store, name).status is Status.PENDING

    def test_sub_4_of_two_with_one_key_the_second_is_the_first(self, store: Store) -> None:
        answers = partly(
            store,
            draft("a", idempotency_key="k"),
            draft("b", idempotency_key="k"),
            draft("c", idempotency_key="k", payload=b'"other"'),
            draft("d", depends_on=("b",)),
            draft("e", depends_on=("c",)),
        )
        assert answers == [
            ("a", False), ("a", True), IdempotencyConflictError, ("d", False),
            UnknownDependencyError,
        ]  # fmt: skip
        assert store.get("b") is None
        assert get(store, "d").depends_on == ("a",)

    def test_sub_4_a_draft_that_was_refused_has_used_no_key(self, store: Store) -> None:
        store.create_queue("full", QueueConfig(max_depth=1), actor="ann")
        submit(store, draft("taken"))
        answers = partly(
            store,
            draft("taken", idempotency_key="k"),
            draft("a", idempotency_key="k", priority=101),
            draft("b", idempotency_key="k"),
            draft("fills", queue="full"),
            draft("c", idempotency_key="k", queue="full"),
            draft("d", idempotency_key="k", queue="full", delay_seconds=60),
        )
        assert answers == [
            DuplicateJobError, InvalidJobError, ("b", False),
            ("fills", False), QueueFullError, ("d", False),
        ]  # fmt: skip
        assert partly(store, draft("e", idempotency_key="k")) == [("b", True)]

    def test_sub_4_nor_has_one_whose_dependency_is_not_there(self, store: Store) -> None:
        waits = {"idempotency_key": "k", "depends_on": ("nobody",)}
        assert partly(store, draft("a", **waits), draft("b", idempotency_key="k")) == [
            UnknownDependencyError, UnknownDependencyError,
        ]  # fmt: skip
        assert partly(store, draft("b", idempotency_key="k")) == [("b", False)]

    def test_sub_4_what_both_say_counts_once(self, store: Store) -> None:
        store.create_queue("slow", QueueConfig(max_depth=1), actor="ann")
        again = [draft(name, idempotency_key="k", queue="slow") for name in "abc"]
        assert partly(store, *again, draft("d", queue="slow"))[:3] == [
            ("a", False), ("a", True), ("a", True),
        ]  # fmt: skip
        assert (store.stats().submitted, store.stats().rejected) == (1, 1)
