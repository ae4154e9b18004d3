r"""TXT: text that is no UTF-8, such as "\udcff" from a file name in another encoding."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.search import JobFilter
from leasehold.errors import InvalidJobError, LeaseholdError
from leasehold.testing.conformance.base import ConformanceBase, draft, get, submit
from leasehold.testing.conformance.cases import on_one_store

NO_TEXT = "caf\udce9"
ASKED: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(NO_TEXT),
    "position": lambda store: store.position(NO_TEXT),
    "peek": lambda store: store.peek(NO_TEXT),
    "attempts": lambda store: store.attempts(NO_TEXT),
    "history": lambda store: store.history(NO_TEXT),
    "log": lambda store: store.log(NO_TEXT).lines,
    "archived": lambda store: store.archived(NO_TEXT),
    "find_ids": lambda store: store.find_ids(NO_TEXT),
    "search": lambda store: store.search(JobFilter(ids=(NO_TEXT,))).jobs,
    "queue_info": lambda store: store.queue_info(NO_TEXT),
}
ORDERED: dict[str, Callable[[Store], object]] = {
    "cancel": lambda store: store.cancel([NO_TEXT], reason="", actor="me"),
    "replay": lambda store: store.replay([NO_TEXT], reset_attempts=True, actor="me"),
    "discard": lambda store: store.discard([NO_TEXT], actor="me"),
    "reprioritize": lambda store: store.reprioritize(NO_TEXT, 1, actor="me"),
}


class TextClauses(ConformanceBase):
    @pytest.fixture
    def with_a_job(self, store: Store) -> Store:
        submit(store, draft("one"))
        return store

    @on_one_store("question", ASKED)
    def test_txt_1_nothing_is_known_under_it(self, with_a_job: Store, question: str) -> None:
        with suppress(InvalidJobError):
            assert not ASKED[question](with_a_job)
        assert get(with_a_job, "one").id == "one"

    @pytest.mark.parametrize("order", ORDERED)
    def test_txt_2_an_order_about_it_is_refused(self, store: Store, order: str) -> None:
        submit(store, draft("one"))
        before = store.stats()
        try:
            answers = ORDERED[order](store)
        except LeaseholdError:
            pass
        else:
            assert isinstance(answers, list)
            assert [isinstance(each, LeaseholdError) for each in answers] == [True]
        submit(store, draft("two"))
        assert store.stats().submitted == before.submitted + 1
        assert store.check() == []

    @on_one_store(
        "fields",
        [
            {"id": NO_TEXT},
            {"task": NO_TEXT},
            {"queue": NO_TEXT},
            {"idempotency_key": NO_TEXT},
            {"parent_id": NO_TEXT},
            {"client": NO_TEXT},
            {"depends_on": (NO_TEXT,)},
            {"metadata": {"name": NO_TEXT}},
            {"metadata": {NO_TEXT: 1}},
        ],
    )
    def test_txt_3_no_job_can_hold_it(self, store: Store, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidJobError):
            store.submit([draft(**fields)])
        assert store.stats().submitted == 0
