"""Every operation and every verb of the store, asked with a token that is good for one queue.

What it is answered never tells of the other queue, and nothing there is changed. Whoever names
something of the other queue is answered as if they had named what is not there.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import msgspec
import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import VERBS, Verb, encode
from leasehold.core.model.archive import ArchivePage
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from leasehold.service.api import OPERATIONS, Api
from leasehold.service.caller import Caller
from leasehold.service.operation import ApiOperation
from leasehold.service.out_of_sight import LOOKED_UP_AT_ONCE, OUT_OF_SIGHT, shown
from leasehold.service.problems import problem_of
from leasehold.service.store_sight import workers_of
from leasehold.stores.memory import MemoryStore
from support.foreign_queue import FOREIGN, OWN_JOBS, foreign_part, store_with_a_foreign_queue

CALLER: Final = Caller(
    name="scoped",
    roles=frozenset({"producer", "consumer", "operator", "observer"}),
    queues=frozenset({"mine"}),
)
NOWHERE: Final = "NOWHERE"
"""Stands in names of things that are not there, in the place of FOREIGN."""

WITHOUT_NAMES: Final[dict[str, Any]] = {
    "actor": "somebody",
    "changes": {"max_depth": 5},
    "codec": "json",
    "config": QueueConfig(),
    "delay_seconds": 60,
    "digest": "x",
    "event": "abandoned",
    "force": True,
    "jobs": [],
    "key": "k",
    "kind": "deploy",
    "lines": [],
    "message": "",
    "metric": ["completed"],
    "metrics": ["completed"],
    "order": CancelAll(),
    "paused": True,
    "priority": 3,
    "progress": b"1",
    "query": "q=x",
    "reason": "",
    "request_id": "once",
    "reset_attempts": False,
    "roles": ["producer"],
    "secret": "x",
    "session": "x",
    "sha256": "0" * 64,
    "silent_seconds": 0.0,
    "since": "2026-01-01T00:00:00Z",
    "size": 1,
    "state": "paused",
    "text": "",
    "timing": {"type": "every", "seconds": 60},
    "token": "x",
    "value": 3,
    "version": 1,
}
"""What is asked in fields that name nothing of a queue, whoever asks."""


def naming(who: str, store: Store) -> dict[str, list[Any]]:
    """What is asked in fields that name something: of the own queue, or of another."""
    own = who == "mine"
    queue = "mine" if own else f"{who}-queue"
    ids = list(OWN_JOBS) if own else [f"{who}-{each}" for each in ("dead", "running", "waits")]
    held = [{"job_id": each, "version": 1, "secret": "x"} for each in ids]
    drafts = [Draft(id="mine:new", task="t", queue=queue)]
    if not own:
        drafts += [
            Draft(id="mine:new", task="t", queue="mine", depends_on=(f"{who}-dead",)),
            Draft(id="mine:new", task="t", queue="mine", parent_id=f"{who}-waits"),
        ]
    job = [{"task": "t", "queue": each.queue, "depends_on": each.depends_on,
            "parent_id": each.parent_id} for each in drafts]  # fmt: skip
    at = store.now()
    worker = WorkerInfo(
        id=f"{who}-worker", queues=(queue,), slots=1, started_at=at, heartbeat_at=at
    )
    schedules = [
        ScheduleDraft(name=f"mine:{number}", timing=Every(3600), job=each)
        for number, each in enumerate(drafts)
    ]
    plain = Draft(id="", task="t", queue="mine")
    schedules.append(ScheduleDraft(name=f"{who}-schedule", timing=Every(3600), job=plain))
    where = [JobFilter()] if own else [JobFilter(queues=(queue,)), JobFilter(ids=tuple(ids))]
    plans = [store.plan_operation(CancelAll(), each) for each in where]
    return {
        "document": [b"x"],
        "drafts": [[each] for each in drafts],
        "draft": [
            *schedules,
            *(OperationDraft(id=f"{who}-operation", plan=each) for each in plans),
            OperationDraft(id="new", undoes=f"{who}-operation"),
            TokenDraft(name=f"{who}-token", roles=("producer",)),
        ],
        "include": [("attempts", "history", "dependents")],
        "info": [worker],
        "job": job,
        "jobs": [[each] for each in job],
        "job_id": ids,
        "job_ids": [[each] for each in ids],
        "leases": [held],
        "name": ["mine:schedule" if own else f"{who}-schedule", f"{who}-pin", f"{who}-token"],
        "operation_id": [f"{who}-operation"],
        "owner": ids,
        "parent_id": ["mine-plain" if own else f"{who}-waits"],
        "prefix": [who],
        "queue": [queue],
        "queues": [[queue]],
        "renewals": [[Renewal(each, 1, 60.0) for each in ids]],
        "request": [LeaseRequest(worker=f"{who}-worker", queues=(queue,))],
        "settlements": [[Settlement(each, 1, Complete()) for each in ids]],
        "task": ["t"],
        "version": [1],
        "where": where,
        "worker": [f"{who}-worker"],
    }


def requests(kind: type, who: str, store: Store) -> Iterator[dict[str, Any]]:
    """What can be asked of an operation or verb: each thing that it can name, one after another."""
    named = naming(who, store)
    fields = [each for each in msgspec.structs.fields(kind) if each.name != "lease_secrets"]
    base = {}
    for each in fields:
        if each.required:
            values = named.get(each.name, [WITHOUT_NAMES.get(each.name)])
            assert values != [None], f"say what is to be asked as {each.name!r}"
            base[each.name] = values[0]
    yield base
    for each in fields:
        for value in named.get(each.name, ()):
            yield base | {each.name: value}


def ask_operation(api: Api, operation: ApiOperation, given: dict[str, Any]) -> bytes:
    """The answer, or the problem, as it crosses the network."""
    try:
        asked = msgspec.convert(msgspec.to_builtins(given), operation.request, strict=False)
    except msgspec.ValidationError:
        return b"no request"
    try:
        if operation.waits:
            for name in ("wait_seconds", "timeout_seconds"):
                if hasattr(asked, name):
                    setattr(asked, name, 0.0)
            return msgspec.json.encode(asyncio.run(api.call_waiting(operation, CALLER, asked)))
        return msgspec.json.encode(api.call(operation, CALLER, asked))
    except LeaseholdError as error:
        return msgspec.json.encode(problem_of(error, 400))


def ask_verb(api: Api, verb: Verb, given: dict[str, Any]) -> bytes:
    try:
        if verb.name == "hints":
            return asyncio.run(api.store_calls.hints(CALLER, encode(given)))
        return api.store_calls.call(verb, CALLER, encode(given))
    except LeaseholdError as error:
        return msgspec.json.encode(problem_of(error, 400))


OPERATION_BY_NAME: Final = {each.name: each for each in OPERATIONS}


def ask(name: str, given_by: Any) -> Iterator[tuple[Any, bytes, Store]]:
    """Ask all there is to ask of an operation, or of a verb (`store/...`), each time anew."""
    verb = VERBS.get(name.removeprefix("store/"))
    operation = OPERATION_BY_NAME.get(name)
    kind: Any = operation.request if operation else verb and verb.arguments.type  # type: ignore[attr-defined]
    count = len(list(given_by(kind, store_with_a_foreign_queue())))
    for index in range(count):
        store = store_with_a_foreign_queue()
        before = foreign_part(store)
        api = Api(store, env=Env(ManualClock(), random.Random(1)))
        given = list(given_by(kind, store))[index]
        if operation is not None:
            answer = ask_operation(api, operation, given)
        else:
            assert verb is not None
            answer = ask_verb(api, verb, given)
        assert foreign_part(store) == before, given
        yield given, answer, store
        api.close()
        store.close()


EVERYTHING: Final = [*OPERATION_BY_NAME, *(f"store/{name}" for name in VERBS)]


@pytest.mark.parametrize("name", EVERYTHING)
def test_of_its_own_queue_it_is_told_nothing_foreign(name: str) -> None:
    for given, answer, _ in ask(name, lambda kind, store: requests(kind, "mine", store)):
        assert FOREIGN.encode() not in answer, given


@pytest.mark.parametrize("name", EVERYTHING)
def test_what_is_foreign_is_as_what_is_not_there(name: str) -> None:
    foreign = ask(name, lambda kind, store: requests(kind, FOREIGN, store))
    nowhere = ask(name, lambda kind, store: requests(kind, NOWHERE, store))
    for (given, told, _), (_, told_of_nothing, _) in zip(foreign, nowhere, strict=True):
        assert comparable(told.replace(b"FOREIGN", b"NOWHERE")) == comparable(told_of_nothing), (
            given
        )


def comparable(answer: bytes) -> bytes:
    """An answer without seals and the names of servers, which are made of chance."""
    return re.sub(rb"[0-9a-f]{32,}", b"", answer)


def test_jobs_that_are_nowhere_are_one_question_to_the_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = connect("memory://")
    asked: list[JobFilter] = []
    search_archive = store.search_archive

    def counted(where: JobFilter, **options: Any) -> ArchivePage:
        asked.append(where)
        return search_archive(where, **options)

    monkeypatch.setattr(store, "search_archive", counted)
    names = [f"gone-{number:03}" for number in range(LOOKED_UP_AT_ONCE)]
    assert shown(CALLER, store, {"depends_on": names}) == {
        "depends_on": [OUT_OF_SIGHT] * len(names)
    }
    assert asked == [JobFilter(ids=tuple(names))]
    store.close()


def test_nobody_learns_from_a_priority_that_a_foreign_job_waits_for_theirs() -> None:
    store = connect("memory://")
    store.submit([Draft(id="needed", task="t", queue="mine", priority=10)])
    store.submit([Draft(id="urgent", task="t", queue=FOREIGN, priority=90, depends_on=("needed",))])
    job = store.get("needed")
    assert job is not None
    assert job.inherited_priority == 90
    everybody = msgspec.structs.replace(job, inherited_priority=None)
    assert shown(CALLER, store, job) == everybody
    assert shown(CALLER, store, [job]) == [everybody]
    assert shown(Caller(name="all", roles=CALLER.roles), store, job) is job
    store.close()


def test_of_a_worker_only_the_jobs_of_its_own_queue_are_counted() -> None:
    with closing(MemoryStore()) as store:
        store.submit([Draft(id=name, task="t", queue=name) for name in ("mine", "theirs")])
        now = store.now()
        both = ("mine", "theirs")
        store.register_worker(
            WorkerInfo(id="w", queues=both, slots=2, started_at=now, heartbeat_at=now)
        )
        store.exchange(request=LeaseRequest(worker="w", queues=both, limit=2))
        [worker] = store.workers()
        assert worker.running == 2
        [seen] = workers_of(frozenset({"mine"}), [worker])
        assert (seen.running, seen.queues, seen.jobs) == (1, ("mine",), ())
