"""Stores compared by their texts: what a person reads must not depend on where the jobs are.

The same random script runs on the memory store and on another. After each verb its answer is
compared (an error by its class and its words), then every job with its history, attempts and log,
and the store's figures and audit log. The machines compare statuses; here a message that only one
of the stores writes fails.

The PostgreSQL store takes its lease versions from one sequence: they are compared as the versions
that the memory store has granted in their place.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.job import DependencyPolicy, Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import MemoryStore
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.record import Record
from leasehold.stores.sqlite import SQLiteStore
from support.effort import drawn

SCRIPTS: Final = int(os.environ.get("LEASEHOLD_SCRIPTS", drawn(40)))
"""How many random scripts are played; more of them behind the environment variable."""
VERBS: Final = 60
QUEUES: Final = ("a", "b")
IDS: Final = tuple(f"j{number}" for number in range(6))

UNTOLD: Final = frozenset({"next_due_at", "scan_ms", "defaults"})
"""What a store may have in its own way: hints, how long it took, how long it keeps what ended."""

OUTCOMES: Final[tuple[Outcome, ...]] = (
    Complete(b"1"),
    Complete(b"2", b'{"seen":true}'),
    Complete(b"x" * 300_000),
    Fail(JobError("OSError", "bad luck", "Traceback ...")),
    Fail(JobError("ValueError", "a bug"), retryable=False),
    Fail(JobError("OSError", "down"), breaker=Breaker(failures=2, pause_seconds=7)),
    Snooze(3, "busy"),
    Snooze(3),
    Release(reason="no time"),
    Release(3, "later"),
    Cancel("enough"),
    Cancel(),
)


def a_draft(random: Random) -> Draft:
    """Mostly a good one; now and then one that is refused, or waits."""

    def rarely(odd: Any, *usual: Any) -> Any:
        return odd if random.random() < 0.08 else random.choice(usual)

    some = tuple(dict.fromkeys(rarely("nobody", *IDS) for _ in range(random.randint(1, 2))))
    return Draft(
        id=random.choice(IDS),
        task=random.choice(("mail", "paint")),
        queue=random.choice(QUEUES),
        priority=rarely(101, 0, 50, 100),
        max_retries=random.randint(0, 2),
        retry=Constant(5),
        delay_seconds=random.choice((None, None, None, 4)),
        start_within_seconds=random.choice((None, None, None, None, 6)),
        idempotency_key=random.choice((None, None, None, None, "k1", "k2")),
        payload=rarely(b"x" * 300_000, b'"Z\xc3\x9cRICH"', b'"stra\xc3\x9fe"', b"[1]"),
        depends_on=some if random.random() < 0.25 else (),
        on_dependency_failure=random.choice(POLICIES),
        limit_key=random.choice((None, None, "tenant")),
    )


POLICIES: Final[tuple[DependencyPolicy, ...]] = ("cancel", "fail", "ignore")
CONFIGS: Final[tuple[dict[str, Any], ...]] = (
    {"max_depth": 2},
    {"max_depth": None, "max_concurrency": 1},
    {"rate_per_second": 1},
    {"max_retries": 0, "retry": Constant(1), "rate_per_second": None},
    {"key_concurrency": 1, "max_concurrency": None},
)

Verb = tuple[Any, ...]


def a_verb(random: Random) -> Verb:
    """Any verb of the contract, those that lead somewhere more often."""
    pick = random.choice
    back, off = pick((0, 0, 0, 1, 2)), pick((0, 0, 0, 1))
    some_ids = [pick((*IDS, "nobody")) for _ in range(random.randint(1, 3))]
    queue = pick(QUEUES)
    often: tuple[Verb, ...] = (
        ("submit", [a_draft(random)], False),
        ("submit", [a_draft(random) for _ in range(3)], True),
        ("lease", random.randint(1, 3)),
        ("settle", back, 0, pick(OUTCOMES)),
        ("wait", pick((1, 5, 11))),
    )
    seldom: tuple[Verb, ...] = (
        ("submit", [a_draft(random) for _ in range(3)], False),
        ("settle", back, off, pick(OUTCOMES)),
        ("settle_all", off, random.sample(OUTCOMES, 3), random.random() < 0.3),
        ("renew", back, off),
        ("progress", back, off, pick((b'{"done":1}', b'{"done":2}', b"[1]", b"{"))),
        ("say", back, off, pick(("hello", "x" * 5000, "\ud800"))),
        ("tell", pick(IDS), pick((Event.ABANDONED, Event.COMPLETED))),
        ("recover",),
        ("recover",),
        ("take", back, off, pick((True, False))),
        ("cancel", some_ids),
        ("replay", some_ids, pick((True, False))),
        ("discard", some_ids),
        ("reprioritize", pick(IDS), pick((0, 70, 101))),
        ("create", queue, pick(CONFIGS)),
        ("update", queue, pick((*CONFIGS, {"max_depth": -1}))),
        ("state", queue, pick((*QueueState, QueueState.ACTIVE))),
        ("purge", queue, random.randint(1, 3)),
        ("delete", queue, random.random() < 0.2),
        ("find", pick(("zürich", "STRASSE", "Luck", "BUG"))),
        ("page", pick((0, 1, 20_000)), pick((None, "x"))),
        ("schedule", pick(("hourly", "")), queue),
        ("schedules", pick(("pause", "resume", "remove", "run")), pick(IDS)),
        ("setting", pick(("max_retries", "nonsense")), pick((1, "x", None))),
    )
    return pick(often) if random.random() < 0.6 else pick(seldom)


def a_script(seed: int) -> list[Verb]:
    random = Random(seed)
    limited: Verb = ("create", "a", CONFIGS[seed % len(CONFIGS)])
    return [limited, *(a_verb(random) for _ in range(VERBS))]


def tour() -> list[Verb]:
    """A way past what random scripts seldom meet."""
    job = Draft(id="j0", task="mail", queue="a", max_retries=0, retry=Constant(5))
    behind = Draft(id="j1", task="mail", queue="a", depends_on=("j0",))
    late = Draft(id="j2", task="mail", queue="b", start_within_seconds=6)
    for_good = Fail(JobError("ValueError", "a bug"), retryable=False)
    return [
        ("submit", [job, behind], False),
        ("discard", ["j0", "nobody"]),
        ("lease", 1),
        ("reprioritize", "j0", 70),
        ("take", 0, 1, False),
        ("settle", 0, 1, Complete()),
        ("settle", 0, 0, for_good),
        ("settle", 0, 0, Complete()),
        ("replay", ["j1"], False),
        ("replay", ["j1", "j0"], False),
        ("cancel", ["j0", "j0"]),
        ("replay", ["j0"], True),
        ("lease", 1),
        ("cancel", ["j0", "j0"]),
        ("wait", 11),
        ("renew", 0, 0),
        ("recover",),
        ("replay", ["j0"], False),
        ("lease", 1),
        ("wait", 11),
        ("recover",),
        ("lease", 1),
        ("wait", 11),
        ("recover",),
        ("renew", 0, 0),
        ("progress", 0, 0, b"{}"),
        ("discard", ["j0", "j1"]),
        ("discard", ["j1", "j0"]),
        ("say", 0, 0, "too late"),
        ("tell", "j0", Event.ABANDONED),
        ("submit", [job, behind], False),
        ("lease", 1),
        ("settle", 0, 0, Complete()),
        ("discard", ["j0"]),
        ("cancel", ["j1"]),
        ("submit", [late, *(Draft(id=each, task="mail", queue="b") for each in IDS[3:])], False),
        ("wait", 11),
        ("recover",),
        ("tell", "j2", Event.ABANDONED),
        ("lease", 3),
        ("settle_all", 1, [Release(reason="no time"), Complete(), for_good], True),
        ("settle_all", 0, [Complete(b"1"), Snooze(3, "busy"), Cancel()], False),
    ]


class Side:
    """One of the stores, and the leases that were taken from it."""

    never_granted = 1
    """A version that is off is higher by so much."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.held: dict[str, Lease] = {}
        self.granted: list[Lease] = []

    def do(self, verb: tuple[Any, ...]) -> Any:
        try:
            return told(self._do(*verb))
        except LeaseholdError as error:
            return told(error)
        except ValueError as error:
            return f"{type(error).__name__}: {error}"

    def _do(self, verb: str, *given: Any) -> Any:
        named: Callable[..., Any] = getattr(self, f"_{verb}")
        return named(*given)

    def _lease_of(self, back: int, off: int) -> tuple[str, int]:
        """A job that was leased, the last one or one before, and a version that is right or off."""
        if not self.held:
            return IDS[back], 1 + off
        lease = list(self.held.values())[-1 - back % len(self.held)]
        return lease.job_id, lease.version + off * self.never_granted

    def _submit(self, drafts: list[Draft], partial: bool) -> Any:
        return self.store.submit(drafts, partial=partial)

    def _lease(self, limit: int) -> Any:
        # What is due in queues that a lease does not ask for is promoted sooner or later.
        self.store.promote()
        request = LeaseRequest(worker="w", queues=QUEUES, limit=limit, lease_seconds=10)
        leases = self.store.exchange((), request).leases
        for lease in leases:
            self.held.pop(lease.job_id, None)
            self.held[lease.job_id] = lease
        self.granted += leases
        return leases

    def _settle(self, back: int, off: int, outcome: Outcome) -> Any:
        return self.store.exchange([Settlement(*self._lease_of(back, off), outcome)]).settled

    def _settle_all(self, off: int, outcomes: list[Outcome], twice: bool) -> Any:
        """Settle the latest leases in one exchange: good ones, stale ones, one perhaps twice."""
        leases = list(self.held.values())[-3:]
        given = [
            Settlement(
                lease.job_id,
                lease.version + (off if place == 1 else 0) * self.never_granted,
                outcome,
            )
            for place, (lease, outcome) in enumerate(zip(leases, outcomes, strict=False))
        ]
        return self.store.exchange(given + given[:1] if twice else given).settled

    def _renew(self, back: int, off: int) -> Any:
        return self.store.renew("w", [Renewal(*self._lease_of(back, off), 10)])

    def _progress(self, back: int, off: int, progress: bytes) -> Any:
        return self.store.report_progress(*self._lease_of(back, off), progress)

    def _say(self, back: int, off: int, text: str) -> Any:
        line = LogLine(self.clock.now() - timedelta(seconds=1), text)
        return self.store.append_log(*self._lease_of(back, off), [line])

    def _tell(self, job_id: str, event: Event) -> Any:
        return self.store.tell(job_id, event, worker="w", version=1, message="gone")

    def _recover(self) -> Any:
        self.store.promote()
        return self.store.recover()

    def _take(self, back: int, off: int, reset: bool) -> Any:
        job_id, version = self._lease_of(back, off)
        return self.store.recover_one(job_id, version, reset_attempts=reset, reason="it is stuck")

    def _cancel(self, job_ids: list[str]) -> Any:
        return self.store.cancel(job_ids, reason="enough", actor="eve")

    def _replay(self, job_ids: list[str], reset: bool) -> Any:
        return self.store.replay(job_ids, reset_attempts=reset, actor="eve")

    def _discard(self, job_ids: list[str]) -> Any:
        return self.store.discard(job_ids, actor="eve")

    def _reprioritize(self, job_id: str, priority: int) -> Any:
        return self.store.reprioritize(job_id, priority, actor="eve")

    def _wait(self, seconds: float) -> None:
        """The clock is turned for both at once."""

    def _create(self, queue: str, config: dict[str, Any]) -> Any:
        return self.store.create_queue(queue, QueueConfig.of(config), actor="eve")

    def _update(self, queue: str, config: dict[str, Any]) -> Any:
        return self.store.update_queue(queue, config, actor="eve")

    def _state(self, queue: str, state: QueueState) -> Any:
        return self.store.set_queue_state(queue, state, actor="eve")

    def _purge(self, queue: str, limit: int) -> Any:
        return self.store.purge_queue(queue, JobFilter(), actor="eve", limit=limit)

    def _delete(self, queue: str, force: bool) -> Any:
        return self.store.delete_queue(queue, force=force, actor="eve")

    def _find(self, text: str) -> Any:
        found = self.store.search(JobFilter(text=text)).jobs
        return [job.id for job in found]

    def _page(self, limit: int, cursor: str | None) -> Any:
        return [job.id for job in self.store.search(JobFilter(), limit=limit, cursor=cursor).jobs]

    def _schedule(self, name: str, queue: str) -> Any:
        job = Draft(id="tick", task="mail", queue=queue)
        draft = ScheduleDraft(name=name, timing=Every(60), job=job)
        return self.store.set_schedule(draft, actor="eve")

    def _schedules(self, order: str, job_id: str) -> Any:
        if order == "run":
            return self.store.run_schedule("hourly", job_id=job_id, actor="eve")
        if order == "remove":
            return self.store.remove_schedule("hourly", actor="eve")
        return self.store.pause_schedule("hourly", paused=order == "pause", actor="eve")

    def _setting(self, name: str, value: Any) -> Any:
        if value is None:
            return self.store.unset_setting(name, actor="eve")
        return self.store.set_setting(name, value, actor="eve")

    def picture(self) -> dict[str, Any]:
        """All that a person can read of the store."""
        store = self.store
        jobs = store.search(JobFilter(), limit=100).jobs
        graph = store.graph([job.id for job in jobs])
        return {
            **{f"job {job.id}": told(job) for job in jobs},
            **{f"history of {job.id}": told(store.history(job.id)) for job in jobs},
            **{f"attempts of {job.id}": told(store.attempts(job.id)) for job in jobs},
            **{f"log of {job.id}": told(store.log(job.id)) for job in jobs},
            **{f"links of {job.id}": told(graph.nodes[job.id]) for job in jobs},
            "stats": [told(store.stats(queue)) for queue in (None, *QUEUES)],
            "queues": told(store.list_queues()),
            "audit": told(store.audit_page().records),
            "stuck": told(store.stuck(0)),
            "schedules": told(store.schedules()),
        }


def told(answer: Any) -> Any:
    """An answer as plain data, errors with their words."""
    if isinstance(answer, LeaseholdError):
        retry = getattr(answer, "retry_after_seconds", None)
        return f"{type(answer).__name__}: {answer}" + ("" if retry is None else f" [{retry}]")
    if isinstance(answer, msgspec.Struct):
        return {
            name: told(getattr(answer, name))
            for name in answer.__struct_fields__
            if name not in UNTOLD
        }
    if isinstance(answer, list | tuple):
        return [told(each) for each in answer]
    if isinstance(answer, dict):
        return {str(key): told(value) for key, value in answer.items()}
    return answer


Another = Callable[[Env], AbstractContextManager[Store]]
"""Opens the store that is compared with the one in memory."""


@contextmanager
def on_sqlite(env: Env) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        with closing(SQLiteStore(path, env=env, durability="normal")) as store:
            yield store


class SequenceSide(Side):
    """One whose lease versions come from a sequence that all jobs share."""

    never_granted = 10**9

    def versions_as_of(self, other: Side) -> dict[int, int]:
        """The versions that this one has granted, as the other one has."""
        pairs = zip(self.granted, other.granted, strict=False)
        return {mine.version: theirs.version for mine, theirs in pairs}


NUMBER: Final = re.compile(r"\b\d{13,}\b")
HIGH_UP: Final = 10**13
FROM_HIGH_UP: Final = (
    f"SELECT setval('lease_version', greatest(last_value, {HIGH_UP})) FROM lease_version"
)
"""Then no other number in what a store says can be taken for a version."""


def renumbered(answer: Any, versions: dict[int, int]) -> Any:
    """An answer with other lease versions, also in its words."""
    off = SequenceSide.never_granted

    def of(number: int) -> int:
        return versions.get(number) or versions.get(number - off, number - 1) + 1

    if isinstance(answer, dict):
        return {name: renumbered(value, versions) for name, value in answer.items()}
    if isinstance(answer, list):
        return [renumbered(each, versions) for each in answer]
    if isinstance(answer, str):
        return NUMBER.sub(lambda found: str(of(int(found[0]))), answer)
    return of(answer) if type(answer) is int else answer


def difference(script: list[Verb], another: Another = on_sqlite) -> str | None:
    """Play a script on two stores; the first thing of which they speak differently."""
    clock = ManualClock()
    memory_env, env = (Env(clock=clock, random=Random(7)) for _ in range(2))
    with closing(MemoryStore(memory_env)) as first, another(env) as second:
        memory = Side(first, clock)
        in_sequence = not isinstance(second, SQLiteStore)
        side = SequenceSide(second, clock) if in_sequence else Side(second, clock)

        def as_in_memory(answer: Any) -> Any:
            if not isinstance(side, SequenceSide):
                return answer
            return renumbered(answer, side.versions_as_of(memory))

        for verb in script:
            clock.advance(verb[1] if verb[0] == "wait" else 0.001)
            one, other = memory.do(verb), side.do(verb)
            if one != (other := as_in_memory(other)):
                return f"{verb} is answered differently\n{apart(one, other)}"
            before, after = memory.picture(), as_in_memory(side.picture())
            for name in [*before, *(after.keys() - before.keys())]:
                one, other = before.get(name), after.get(name)
                if one != other:
                    return f"after {verb}: {name}\n{apart(one, other)}"
        assert [store.check() for store in (first, second)] == [[], []]
    return None


def apart(one: Any, other: Any) -> str:
    """Where two answers differ, without all in which they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [(name, one.get(name), other.get(name)) for name in {**one, **other}]
        return "\n".join(f"{name}: {apart(a, b)}" for name, a, b in parts if a != b)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = [(place, a, b) for place, (a, b) in enumerate(zip(one, other, strict=True))]
        return "\n".join(f"number {place}: {apart(a, b)}" for place, a, b in parts if a != b)
    return f"{one!r}\n  against {other!r}"


def shortest(script: list[Verb], another: Another = on_sqlite) -> str | None:
    """The difference that a script shows, with as few of its verbs as show one."""
    found = difference(script, another)
    place = 0
    while found is not None and place < len(script):
        shorter = script[:place] + script[place + 1 :]
        still = difference(shorter, another)
        if still is None:
            place += 1
        else:
            script, found = shorter, still
    return None if found is None else "\n".join([*map(str, script), found])


@pytest.fixture
def on_postgres(lent_stores: Callable[[Env], Store]) -> Another:
    from leasehold.stores.postgres import PostgresStore

    def opened(env: Env) -> AbstractContextManager[Store]:
        store = lent_stores(env)
        assert isinstance(store, PostgresStore)
        with store._database.beside_all() as db:
            db.execute(FROM_HIGH_UP)
        return closing(store)

    return opened


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_both_stores_say_the_same(seed: int) -> None:
    script = a_script(seed)
    if difference(script) is not None:
        pytest.fail(shortest(script) or "the difference does not come again")


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_the_postgresql_store_says_the_same(seed: int, on_postgres: Another) -> None:
    script = a_script(seed)
    if difference(script, on_postgres) is not None:
        pytest.fail(shortest(script, on_postgres) or "the difference does not come again")


def test_both_stores_say_the_same_on_the_tour() -> None:
    assert difference(tour()) is None


def test_the_postgresql_store_says_the_same_on_the_tour(on_postgres: Another) -> None:
    assert difference(tour(), on_postgres) is None


def test_a_message_that_only_one_store_writes_is_noticed() -> None:
    """The comparer itself: what it is for, it must see."""
    script: list[Verb] = [
        ("submit", [Draft(id="j0", task="mail", queue="a")], False),
        ("reprioritize", "j0", 70),
    ]
    assert difference(script) is None
    tell = Histories.tell

    def otherwise(self: Histories, job: Record, event: Event, message: str, **rest: Any) -> None:
        tell(self, job, event, f"otherwise {message}", **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Histories, "tell", otherwise)
        assert "otherwise" in (difference(script) or "")


WORDS: Final = (
    # Refusals of holders, and what their jobs' histories say.
    "no longer exists: its lease",
    "is lost: the job is",
    "is lost: w holds it under version",
    "it can still be settled, but not renewed",
    "used lease version",
    "bytes; at most",
    # Recovery.
    "worker w let its lease expire at",
    "was taken from worker w: it is stuck",
    "its worker was lost, and no attempts are left",
    # Ends, and jobs that wait again.
    "OSError: bad luck",
    "not started by",
    "was deleted by eve",
    "dependency j",
    "by eve, attempts reset",
    "by eve, one more attempt",
    "by eve'",
    # Refusals of people.
    "there is no job 'nobody'",
    "it cannot be cancelled",
    "only dead or cancelled jobs can be replayed",
    "cannot be replayed: dependency",
    "only jobs that have ended can be discarded",
    "which has not ended, depends on it",
    "only a waiting job's priority can be changed",
    "it cannot be written to its history alone",
)
"""What a store says of held jobs and of ends: each must have been compared in some script."""


def test_the_scripts_lead_everywhere() -> None:
    """Scripts that get nowhere would compare nothing."""
    unsaid = set(WORDS)
    seen: set[Status] = set()
    events: set[Event] = set()
    refused: Counter[str] = Counter()
    for script in (tour(), *map(a_script, range(SCRIPTS))):
        clock = ManualClock()
        side = Side(MemoryStore(Env(clock=clock, random=Random(7))), clock)
        for verb in script:
            clock.advance(verb[1] if verb[0] == "wait" else 0.001)
            answer = side.do(verb)
            for each in answer if isinstance(answer, list) else [answer]:
                if isinstance(each, str):
                    refused[each.partition(":")[0]] += 1
            said = f"{answer!r} {side.picture()!r}" if unsaid else ""
            unsaid -= {words for words in unsaid if words in said or repr(words)[1:-1] in said}
            jobs = side.store.search(JobFilter()).jobs
            seen.update(job.status for job in jobs)
            events.update(each.event for job in jobs for each in side.store.history(job.id))
    assert not unsaid
    assert seen == set(Status)
    assert set(Event) - events <= {Event.HEARTBEAT_FAILED}
    assert {
        "CycleError",
        "DuplicateJobError",
        "IdempotencyConflictError",
        "InvalidJobError",
        "InvalidQueueError",
        "InvalidTransitionError",
        "JobNotFoundError",
        "LeaseConflictError",
        "LeaseExpiredError",
        "LeaseLostError",
        "PayloadError",
        "PayloadTooLargeError",
        "QueueClosedError",
        "QueueExistsError",
        "QueueFullError",
        "QueueNotEmptyError",
        "QueueNotFoundError",
        "RateLimitedError",
        "ScheduleNotFoundError",
        "UnknownDependencyError",
    } <= refused.keys()
