"""Submit: what becomes of the drafts of one call, decided once for every store.

Everything is decided before anything is written, in one write: the store tells what it knows of the
drafts, each for all of them at once, and is then given the jobs to add. The checks of a draft, in
this order: a known idempotency key answers it, whatever else; then its id must be free, the store
must have room, its queue must let it in; and at last, what it depends on must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from leasehold.core.dependencies import Plan, Verdict, is_in_the_way
from leasehold.core.drain import RETRY_SECONDS_UNKNOWN
from leasehold.core.gate import Gate, GateBook
from leasehold.core.job import Draft
from leasehold.core.limits import IDEMPOTENCY_SECONDS
from leasehold.core.records import Submitted
from leasehold.core.refusals import id_is_taken
from leasehold.core.settings import DraftDefaults
from leasehold.core.status import Status
from leasehold.env import to_micros
from leasehold.errors import LeaseholdError, QueueFullError

Answer = Submitted | LeaseholdError
KeyName = tuple[str, str]
"""A queue, and an idempotency key that was used there."""

IDEMPOTENCY_MICROS: Final = IDEMPOTENCY_SECONDS * 1_000_000


class FirstUse(NamedTuple):
    """The job that an idempotency key was first used for."""

    job_id: str
    digest: bytes
    status: Status


class NewKey(NamedTuple):
    """An idempotency key to keep, and at which place among the added jobs its own one stands."""

    place: int
    queue: str
    key: str
    digest: bytes


class NewLinks(NamedTuple):
    """What a new job depends on, and which of that is in its way."""

    needs: tuple[str, ...]
    blocked_by: tuple[str, ...]


class Crowd(NamedTuple):
    """A store that has not room for all jobs of a call."""

    capacity: int
    left: int
    dead_letters_fill_it: bool


class Intake(GateBook, Protocol):
    """What a submit asks of a store, inside its one write."""

    @property
    def has_rules(self) -> bool:
        """Whether any queue has rules."""

    @property
    def defaults(self) -> DraftDefaults | None: ...

    def crowd(self, jobs: int) -> Crowd | None:
        """None where so many jobs more have room."""

    def first_uses(self, keys: Collection[KeyName]) -> dict[KeyName, FirstUse]:
        """Those of the idempotency keys that were used before and have not expired."""

    def taken(self, job_ids: Collection[str]) -> Collection[str]:
        """Those of the ids that jobs have."""

    def endings(self, job_ids: Collection[str]) -> Mapping[str, Status | None]:
        """How jobs have ended, None for one that has not; without ids that no job has."""

    def add(
        self, drafts: Sequence[Draft], links: Mapping[str, NewLinks], keys: Sequence[NewKey]
    ) -> list[Submitted]:
        """Make jobs of drafts that nothing stands against. Of an id that is taken nevertheless it
        raises `id_is_taken`, and adds none.
        """

    def tell_again(self, ended: Collection[str]) -> None:
        """Tell those who wait for these jobs, which ended earlier, as if they had just ended."""

    def statuses(self, job_ids: Collection[str]) -> Mapping[str, Status]:
        """Where these jobs stand by now."""

    def count_rejected(self, drafts: Sequence[Draft]) -> None: ...


def due_at(draft: Draft, now: int) -> int:
    """When a job that is submitted now may run at the earliest."""
    if draft.run_at is not None:
        return max(now, to_micros(draft.run_at))
    if draft.delay_seconds:
        return now + round(draft.delay_seconds * 1e6)
    return now


def submit(
    intake: Intake,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError] = MappingProxyType({}),
    *,
    partial: bool = False,
) -> Sequence[Answer] | QueueFullError:
    """Store checked drafts. Without `partial`, the first bad one raises and nothing is stored.

    That a queue is full is answered, not raised: how many were refused must be written down.
    `refused` are drafts of the call that were bad in themselves.
    """
    if (
        partial
        or intake.has_rules
        or intake.defaults is not None
        or any(draft.idempotency_key is not None or draft.depends_on for draft in drafts)
        or intake.crowd(len(drafts)) is not None
    ):
        return _Call(intake, drafts, refused, partial=partial).answers()
    return intake.add(drafts, {}, ())


class _Call:
    """One call of submit."""

    def __init__(
        self,
        intake: Intake,
        drafts: Sequence[Draft],
        refused: Mapping[str, LeaseholdError],
        *,
        partial: bool,
    ) -> None:
        self._intake = intake
        self._drafts = list(drafts)
        """Those that were let in, with the defaults of their queues and of the store."""
        self._refused = refused
        self._partial = partial
        names = [name for name in map(_key_name, drafts) if name is not None]
        self._uses = intake.first_uses(names) if names else {}
        self._taken = set(intake.taken([draft.id for draft in drafts]))
        self._endings = self._find_dependencies(drafts)
        self._crowd = intake.crowd(len(drafts))
        self._admitted = 0
        self._gate = (
            Gate(intake, drafts, is_pending=self._is_pending(drafts), known=self._known_id,
                 partial=partial)
            if intake.has_rules
            else None
        )  # fmt: skip

    def answers(self) -> list[Answer] | QueueFullError:
        verdicts: list[Verdict] = []
        for place, draft in enumerate(self._drafts):
            try:
                duplicate = self._duplicate(draft)
                if duplicate is None:
                    self._admit(place, draft)
                verdicts.append(duplicate)
            except QueueFullError as error:
                self._intake.count_rejected([draft] if self._partial else self._drafts)
                if not self._partial:
                    if self._gate is not None:
                        self._gate.keep_drains()
                    return error
                verdicts.append(error)
            except LeaseholdError as error:
                if not self._partial:
                    raise
                verdicts.append(error)
        answers = self._store(verdicts)
        if self._gate is not None:
            self._gate.keep()
        return answers

    # -- each draft by itself ----------------------------------------------------------------

    def _duplicate(self, draft: Draft) -> Submitted | None:
        """The answer to a draft whose key was used before; raises if that was for another job."""
        name = _key_name(draft)
        first = None if name is None else self._uses.get(name)
        if first is None:
            return None
        if first.digest != draft.fingerprint():
            raise draft.conflict_with(first.job_id)
        return Submitted(first.job_id, first.status, is_duplicate=True)

    def _admit(self, place: int, draft: Draft) -> None:
        """Reserve a draft's id and key for it; raises what stands against it."""
        if draft.id in self._taken:
            raise id_is_taken(draft.id)
        if self._crowd is not None and self._admitted >= self._crowd.left:
            raise self._no_room(draft, self._crowd)
        asked = draft
        if self._gate is not None:
            draft = self._gate.admit(draft)
        if self._intake.defaults is not None:
            draft = self._intake.defaults.applied_to(draft)
        self._drafts[place] = draft
        self._taken.add(draft.id)
        self._admitted += 1
        name = _key_name(asked)
        if name is not None:
            self._uses[name] = FirstUse(draft.id, draft.fingerprint(), Status.BLOCKED)

    def _no_room(self, draft: Draft, crowd: Crowd) -> QueueFullError:
        asked = 1 if self._partial else len(self._drafts)
        if asked > crowd.capacity:
            return QueueFullError(
                f"{asked} jobs never fit at once into a store that holds {crowd.capacity} jobs: "
                "submit fewer at a time, or raise capacity"
            )
        if crowd.dead_letters_fill_it:
            return QueueFullError(
                f"job {draft.id} was not stored: the store holds {crowd.capacity} dead letters or "
                "more, which is its capacity. Replay or discard some, or raise capacity.",
                RETRY_SECONDS_UNKNOWN,
            )
        return QueueFullError(
            f"job {draft.id} was not stored: the store holds {crowd.capacity} jobs that have not "
            "ended, which is its capacity. Wait until some have, or raise capacity.",
            RETRY_SECONDS_UNKNOWN,
        )

    # -- dependencies ------------------------------------------------------------------------

    def _find_dependencies(self, drafts: Sequence[Draft]) -> Mapping[str, Status | None]:
        """How far everything is that a draft may turn out to depend on."""
        needed = {job_id for draft in drafts for job_id in draft.depends_on}
        if not needed:
            return {}
        # A duplicate stands for the job it is one of.
        needed.update(use.job_id for use in self._uses.values())
        return self._intake.endings(needed)

    def _is_pending(self, drafts: Sequence[Draft]) -> Callable[[Draft], bool]:
        """Which of these drafts will be pending: due, and with nothing in their way."""
        now = self._intake.now
        own = {draft.id: draft for draft in drafts} if self._endings else {}

        def ended(job_id: str) -> Status | None:
            known = self._known_id(own[job_id]) if job_id in own else job_id
            # A draft that is no duplicate is a job to come.
            return None if known is None else self._endings.get(known)

        return lambda draft: (
            due_at(draft, now) <= now
            and not any(
                is_in_the_way(draft.on_dependency_failure, ended(needed))
                for needed in draft.depends_on
            )
        )

    def _known_id(self, draft: Draft) -> str | None:
        name = _key_name(draft)
        first = None if name is None else self._uses.get(name)
        return None if first is None else first.job_id

    def _links_of(self, draft: Draft, needs: tuple[str, ...]) -> NewLinks:
        policy = draft.on_dependency_failure
        in_the_way = (each for each in needs if is_in_the_way(policy, self._endings.get(each)))
        return NewLinks(needs, tuple(in_the_way))

    # -- all of them -------------------------------------------------------------------------

    def _store(self, verdicts: Sequence[Verdict]) -> list[Answer]:
        drafts = self._drafts
        links: dict[str, NewLinks] = {}
        if any(draft.depends_on for draft in drafts):
            plan = Plan(drafts, verdicts, self._endings.__contains__, self._refused)
            if plan.refusal is not None and not self._partial:
                raise plan.refusal
            verdicts = plan.verdicts
            links = {
                draft.id: self._links_of(draft, needs)
                for draft, needs in zip(drafts, plan.needs, strict=True)
                if needs
            }
        new = [draft for draft, verdict in zip(drafts, verdicts, strict=True) if verdict is None]
        added = {each.id: each for each in self._add(new, links)}
        return [
            added[draft.id] if verdict is None else _as_added(verdict, added)
            for draft, verdict in zip(drafts, verdicts, strict=True)
        ]

    def _add(self, drafts: Sequence[Draft], links: Mapping[str, NewLinks]) -> list[Submitted]:
        keys = [
            NewKey(place, *name, self._uses[name].digest)
            for place, draft in enumerate(drafts)
            if (name := _key_name(draft)) is not None
        ]
        added = self._intake.add(drafts, links, keys)
        ended_badly = {
            needed
            for each in links.values()
            for needed in each.blocked_by
            if self._endings.get(needed) is not None
        }
        if not ended_badly:
            return added
        self._intake.tell_again(ended_badly)
        now = self._intake.statuses([job_id for job_id, each in links.items() if each.blocked_by])
        return [Submitted(each.id, now.get(each.id, each.status)) for each in added]


def _key_name(draft: Draft) -> KeyName | None:
    return None if draft.idempotency_key is None else (draft.queue, draft.idempotency_key)


def _as_added(verdict: Answer, added: Mapping[str, Submitted]) -> Answer:
    """The duplicate of a draft of the same call stands where that draft's job does."""
    first = added.get(verdict.id) if isinstance(verdict, Submitted) else None
    return verdict if first is None else Submitted(first.id, first.status, is_duplicate=True)
