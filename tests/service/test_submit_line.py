"""Submits that come at the same time are stored together, and each is answered as if alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.tokens import Token
from leasehold.errors import StoreUnavailableError
from leasehold.service.submit_line import GROUPS_MAX
from service.conftest import Service

LIMIT_SECONDS = 60


class Jam:
    """Holds up the first writes, so that whatever comes meanwhile waits in line."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.groups: list[int] = []
        self.is_over = threading.Event()
        self._submit = service.store.submit
        self._submit_as = service.store.submit_as
        monkeypatch.setattr(service.store, "submit", self._submit_slowly)
        monkeypatch.setattr(service.store, "submit_as", self._submit_as_slowly)

    def _submit_slowly(self, drafts: Sequence[Draft], *, partial: bool = False) -> Any:
        self.groups.append(len(drafts))
        assert self.is_over.wait(LIMIT_SECONDS)
        return self._submit(drafts, partial=partial)

    def _submit_as_slowly(self, token: Token, digest: str, drafts: Sequence[Draft]) -> Any:
        self.groups.append(len(drafts))
        assert self.is_over.wait(LIMIT_SECONDS)
        return self._submit_as(token, digest, drafts)

    def await_line(self, length: int) -> None:
        _await(lambda: len(self.service.api.submit_line._waiting) >= length)


@pytest.fixture
def jam(memory_service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jam]:
    jam = Jam(memory_service, monkeypatch)
    yield jam
    jam.is_over.set()


def together(
    jam: Jam,
    client: httpx.Client,
    *jobs: dict[str, Any],
    headers: Sequence[dict[str, str] | None] | None = None,
) -> list[httpx.Response]:
    """The answers to submits that were all in line before any was stored."""

    def submit(job: dict[str, Any], shown: dict[str, str] | None = None) -> httpx.Response:
        return client.post("/api/v1/jobs", json=job, headers=shown)

    with ThreadPoolExecutor(len(jobs) + GROUPS_MAX) as threads:
        first = []
        for number in range(GROUPS_MAX):
            first.append(threads.submit(submit, {"task": "first"}))
            _await(lambda number=number: len(jam.groups) > number)
        asked = []
        # One after the other, to know their order.
        for number, (job, shown) in enumerate(
            zip(jobs, headers or [None] * len(jobs), strict=True)
        ):
            asked.append(threads.submit(submit, job, shown))
            jam.await_line(number + 1)
        jam.is_over.set()
        assert [each.result().status_code for each in first] == [201] * GROUPS_MAX
        return [each.result() for each in asked]


def _await(condition: Any) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_whoever_waits_in_line_is_stored_in_one_write(jam: Jam) -> None:
    client = jam.service.client("producer")
    answers = together(jam, client, *({"task": "work", "id": f"j{n}"} for n in range(5)))
    assert [each.status_code for each in answers] == [201] * 5
    assert [each.json()["id"] for each in answers] == [f"j{n}" for n in range(5)]
    assert jam.groups == [1] * GROUPS_MAX + [5]


def test_each_is_answered_for_itself(jam: Jam) -> None:
    store = jam.service.store
    store.create_queue("small", QueueConfig(max_depth=1), actor="me")
    answers = together(
        jam,
        jam.service.client("producer"),
        {"task": "work", "id": "good"},
        {"task": "work", "id": "good"},
        {"task": "work", "priority": 999},
        {"task": "work", "queue": "small"},
        {"task": "work", "queue": "small"},
        {"task": "work", "id": "keyed", "idempotency_key": "k"},
        {"task": "work", "id": "again", "idempotency_key": "k"},
        {"task": "work", "depends_on": ["nobody"]},
        {"task": "work", "with_position": True},
        {"task": "work", "id": "once", "request_id": "r"},
        {"command": "true"},
    )
    codes = [each.json().get("code", each.status_code) for each in answers]
    assert codes == [
        201, "duplicate_job", "invalid_job", 201, "queue_full", 201, 201, "unknown_dependency",
        201, 201, "forbidden",
    ]  # fmt: skip
    assert (answers[6].json()["id"], answers[6].json()["is_duplicate"]) == ("keyed", True)
    assert answers[8].json()["position"] is not None


def test_a_token_that_has_ended_is_refused_in_a_group(jam: Jam) -> None:
    good, bad = jam.service.token("producer"), jam.service.token("producer", name="gone")
    jam.service.store.revoke_token("gone", actor="me")
    client = jam.service.client(secret=good)
    shown = [{"Authorization": f"Bearer {secret}"} for secret in (good, bad, good, bad)]
    answers = together(jam, client, *({"task": "work"} for _ in shown), headers=shown)
    assert [each.status_code for each in answers] == [201, 401, 201, 401]


def test_a_store_that_fails_is_told_to_all_of_a_group(
    jam: Jam, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = jam._submit

    def fail(drafts: Sequence[Draft], *, partial: bool = False) -> Any:
        if len(drafts) > 1:
            raise StoreUnavailableError("the disk is gone")
        return inner(drafts, partial=partial)

    monkeypatch.setattr(jam, "_submit", fail)
    client = jam.service.client("producer")
    answers = together(jam, client, *({"task": "work"} for _ in range(3)))
    assert [each.status_code for each in answers] == [503] * 3


def test_the_token_of_a_known_caller_is_looked_for_in_the_write(
    memory_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = memory_service.client("producer")
    assert client.post("/api/v1/jobs", json={"task": "work", "id": "first"}).status_code == 201

    def unexpected(digest: str) -> Any:
        raise AssertionError(f"the write looks for it: {digest}")

    monkeypatch.setattr(memory_service.store, "find_token", unexpected)
    assert client.post("/api/v1/jobs", json={"task": "work", "id": "second"}).status_code == 201
    assert memory_service.store.get("second") is not None


@pytest.mark.parametrize("job", [{"task": "work"}, {"task": "work", "priority": 999}, {"x": 1}])
def test_a_known_caller_whose_token_was_revoked_is_told_nothing_else(
    memory_service: Service, job: dict[str, Any]
) -> None:
    client = memory_service.client(secret=memory_service.token("producer", name="gone"))
    assert client.post("/api/v1/jobs", json={"task": "work"}).status_code == 201
    before = memory_service.store.stats()
    memory_service.store.revoke_token("gone", actor="me")
    assert client.post("/api/v1/jobs", json=job).status_code == 401
    assert memory_service.store.stats() == before


def test_a_known_caller_is_refused_as_anybody(memory_service: Service) -> None:
    client = memory_service.client("producer")

    def submit(**job: Any) -> Any:
        return client.post("/api/v1/jobs", json=job).json()

    assert submit(task="work", id="taken")["status"] == "pending"
    assert submit(task="work", priority=999)["code"] == "invalid_job"
    assert submit(task="work", id="taken")["code"] == "duplicate_job"
    assert submit(command="true")["code"] == "forbidden"
    assert submit(task="work", depends_on=["nobody"])["code"] == "unknown_dependency"
