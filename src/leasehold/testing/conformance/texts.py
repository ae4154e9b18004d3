r"""TXT: text that is no UTF-8, such as "\udcff" from a file name in another encoding, and names
with a NUL, which one database can look for and another cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.lease import LeaseRequest, Renewal, Renewed, Settled, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.errors import (
    InvalidJobError,
    JobNotFoundError,
    LeaseholdError,
    LeaseLostError,
    OperationNotFoundError,
    ScheduleNotFoundError,
    TokenNotFoundError,
)
from leasehold.testing.conformance.base import ConformanceBase, draft, get, submit
from leasehold.testing.conformance.cases import on_one_store

NO_TEXT = "caf\udce9"
WITH_NUL = "a\x00b"
ASKED: dict[str, Callable[[Store, str], object]] = {
    "get": lambda store, name: store.get(name),
    "position": lambda store, name: store.position(name),
    "peek": lambda store, name: store.peek(name),
    "attempts": lambda store, name: store.attempts(name),
    "history": lambda store, name: store.history(name),
    "history_page": lambda store, name: store.history_page(name).events,
    "log": lambda store, name: store.log(name).lines,
    "log_page": lambda store, name: store.log_page(name).lines,
    "archived": lambda store, name: store.archived(name),
    "find_ids": lambda store, name: store.find_ids(name),
    "graph": lambda store, name: store.graph([name]).nodes,
    "search": lambda store, name: store.search(JobFilter(ids=(name,))).jobs,
    "search by key": lambda store, name: store.search(JobFilter(idempotency_key=name)).jobs,
    "search by parent": lambda store, name: store.search(JobFilter(parent_id=name)).jobs,
    "search by task": lambda store, name: store.search(JobFilter(tasks=(name,))).jobs,
    "search_archive": lambda store, name: store.search_archive(JobFilter(ids=(name,))).jobs,
    "count": lambda store, name: store.count(JobFilter(ids=(name,))).jobs,
    "order": lambda store, name: (
        store.order(CancelAll(), JobFilter(ids=(name,)), actor="me").changed
    ),
    "queue_info": lambda store, name: store.queue_info(name),
    "stats": lambda store, name: store.stats(name).submitted,
    "metrics": lambda store, name: store.metrics(name).submitted,
    "get_schedule": lambda store, name: store.get_schedule(name),
    "key_info": lambda store, name: store.key_info("default", name).running,
    "operation": lambda store, name: store.operation(name),
    "purge_queue": lambda store, name: store.purge_queue(name, JobFilter(), actor="me").purged,
    "lease": lambda store, name: (
        store.exchange(request=LeaseRequest(worker="w", queues=(name,))).leases
    ),
}
ORDERED: dict[str, Callable[[Store, str], object]] = {
    "cancel": lambda store, name: store.cancel([name], reason="", actor="me"),
    "replay": lambda store, name: store.replay([name], reset_attempts=True, actor="me"),
    "discard": lambda store, name: store.discard([name], actor="me"),
    "reprioritize": lambda store, name: store.reprioritize(name, 1, actor="me"),
}
REFUSED: dict[str, tuple[type[LeaseholdError], Callable[[Store], object]]] = {
    "reprioritize": (
        JobNotFoundError,
        lambda store: store.reprioritize(WITH_NUL, 1, actor="me"),
    ),
    "report_progress": (
        LeaseLostError,
        lambda store: store.report_progress(WITH_NUL, 1, b"{}"),
    ),
    "recover_one": (
        LeaseLostError,
        lambda store: store.recover_one(WITH_NUL, 1, reset_attempts=True, reason="so"),
    ),
    "pause_schedule": (
        ScheduleNotFoundError,
        lambda store: store.pause_schedule(WITH_NUL, paused=True, actor="me"),
    ),
    "remove_schedule": (
        ScheduleNotFoundError,
        lambda store: store.remove_schedule(WITH_NUL, actor="me"),
    ),
    "stop_operation": (
        OperationNotFoundError,
        lambda store: store.stop_operation(WITH_NUL, actor="me"),
    ),
    "revoke_token": (TokenNotFoundError, lambda store: store.revoke_token(WITH_NUL, actor="me")),
}


class TextClauses(ConformanceBase):
    @pytest.fixture
    def with_a_job(self, store: Store) -> Store:
        submit(store, draft("one"))
        return store

    @on_one_store("question", ASKED)
    def test_txt_1_nothing_is_known_under_it(self, with_a_job: Store, question: str) -> None:
        with suppress(InvalidJobError):
            assert not ASKED[question](with_a_job, NO_TEXT)
        assert get(with_a_job, "one").id == "one"

    @pytest.mark.parametrize("order", ORDERED)
    def test_txt_2_an_order_about_it_is_refused(self, store: Store, order: str) -> None:
        submit(store, draft("one"))
        before = store.stats()
        try:
            answers = ORDERED[order](store, NO_TEXT)
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

    @on_one_store("question", ASKED)
    def test_txt_4_nothing_is_named_with_a_nul(self, with_a_job: Store, question: str) -> None:
        assert not ASKED[question](with_a_job, WITH_NUL)

    @on_one_store("order", REFUSED)
    def test_txt_4_an_order_about_it_says_that_it_is_not_there(
        self, with_a_job: Store, order: str
    ) -> None:
        error, give = REFUSED[order]
        with pytest.raises(error):
            give(with_a_job)

    def test_txt_4_of_many_it_is_the_one_that_is_not_there(self, store: Store) -> None:
        submit(store, draft("one"))
        [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
        held = [(WITH_NUL, 1), (lease.job_id, lease.version)]
        not_renewed, renewed = store.renew("w", [Renewal(*each, 60.0) for each in held])
        assert isinstance(not_renewed, LeaseLostError)
        assert isinstance(renewed, Renewed)
        fatal = Fail(JobError("E", "no"), retryable=False)
        not_settled, settled = store.exchange([Settlement(*each, fatal) for each in held]).settled
        assert isinstance(not_settled, LeaseLostError)
        assert isinstance(settled, Settled)
        unknown, replayed = store.replay([WITH_NUL, "one"], reset_attempts=True, actor="me\x00")
        assert isinstance(unknown, JobNotFoundError)
        assert isinstance(replayed, Job)

    @on_one_store("field", ["id", "task", "queue", "idempotency_key", "parent_id", "client"])
    def test_txt_4_no_job_can_be_named_so(self, store: Store, field: str) -> None:
        with pytest.raises(InvalidJobError):
            store.submit([draft(**{field: WITH_NUL})])
        assert store.stats().submitted == 0
