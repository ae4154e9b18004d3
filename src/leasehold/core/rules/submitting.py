"""Submit: what becomes of the drafts of one call, decided once for every store.

Everything is decided before anything is written, in one write: the store answers each question for
all drafts at once, and is then given the jobs to add. A draft is checked in this order: a known
idempotency key answers it without further checks; then its id must be free, the store must have
room, and its queue must accept it; finally, its dependencies must exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from leasehold.core.model.drain import RETRY_SECONDS_UNKNOWN
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.refusals import id_is_taken
from leasehold.core.model.status import Status
from leasehold.core.rules.dependencies import SubmitPlan, Verdict, is_in_the_way
from leasehold.core.rules.gate import Gate
from leasehold.core.rules.intake import Answer, Crowd, FirstUse, Intake, KeyName, NewKey, NewLinks
from leasehold.env import to_micros
from leasehold.errors import (
    DuplicateJobError,
    LeaseholdError,
    QueueFullError,
    RateLimitedError,
)


def due_at(draft: Draft, now: int) -> int:
    """The earliest time at which a job submitted now may run."""
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

    A full queue is returned as an answer, not raised: the number of refused jobs must still be
    written. `refused` has the drafts of the call that were invalid in themselves.
    """
    keyed = linked = False
    for draft in drafts:
        if draft.idempotency_key is not None:
            keyed = True
        if draft.depends_on:
            linked = True
    if not (keyed or linked or partial):
        return submit_plain(intake, drafts)
    call = _Call(intake, drafts, intake.crowd(len(drafts)), partial=partial)
    if keyed:
        call.look_for_keys()
    if linked:
        call.look_for_dependencies(refused)
    return call.answers()


def submit_plain(intake: Intake, drafts: Sequence[Draft]) -> Sequence[Answer] | QueueFullError:
    """`submit` for drafts that have neither idempotency keys nor dependencies, all or nothing."""
    crowd = intake.crowd(len(drafts))
    if intake.has_rules or crowd is not None or intake.defaults is not None:
        return _Call(intake, drafts, crowd, partial=False).answers()
    return intake.add(drafts, {}, ())


def first_taken(intake: Intake, drafts: Sequence[Draft]) -> DuplicateJobError | None:
    """The error for the first of these drafts whose id is taken, by a job or by one before it."""
    seen = set(intake.taken([draft.id for draft in drafts]))
    for draft in drafts:
        if draft.id in seen:
            return id_is_taken(draft.id)
        seen.add(draft.id)
    return None


class _Call:
    """A submit call that has more to check than plain jobs into queues without rules."""

    def __init__(
        self, intake: Intake, drafts: Sequence[Draft], crowd: Crowd | None, *, partial: bool
    ) -> None:
        self._intake = intake
        self._asked = drafts
        self._drafts = list(drafts)
        """The accepted drafts, with the defaults of their queues and of the store."""
        self._crowd = crowd
        self._partial = partial
        self._uses: dict[KeyName, FirstUse] = {}
        """Keys used before, and the keys of drafts that this call has accepted."""
        self._linked = False
        self._endings: Mapping[str, Status | None] = {}
        """How each job that a draft may depend on has ended; None while it has not."""
        self._refused: Mapping[str, LeaseholdError] = {}
        self._admitted = 0
        self._gate: Gate | None = None
        if intake.has_rules:
            self._gate = Gate(
                intake, drafts, is_pending=self._is_pending, known=self._known_id, partial=partial
            )

    def look_for_keys(self) -> None:
        names = [name for name in map(_key_name, self._asked) if name is not None]
        self._uses = self._intake.first_uses(names)

    def look_for_dependencies(self, refused: Mapping[str, LeaseholdError]) -> None:
        self._linked = True
        self._refused = refused
        needed = {job_id for draft in self._asked for job_id in draft.depends_on}
        # A duplicate stands for the original job.
        needed.update(use.job_id for use in self._uses.values() if not use.is_gone)
        self._endings = self._intake.endings(needed)

    def answers(self) -> Sequence[Answer] | QueueFullError:
        answers = self._store_some() if self._partial else self._store_all()
        if self._gate is not None:
            if isinstance(answers, QueueFullError):
                self._gate.keep_drains()
            else:
                self._gate.keep()
        return answers

    def _store_some(self) -> list[Answer]:
        """Accept or refuse each draft on its own."""
        taken = set(self._intake.taken([draft.id for draft in self._asked]))
        verdicts: list[Verdict] = []
        for place, draft in enumerate(self._asked):
            try:
                duplicate = self._duplicate(draft)
                if duplicate is None:
                    if draft.id in taken:
                        raise id_is_taken(draft.id)
                    self._admit(place, draft)
                    taken.add(draft.id)
                verdicts.append(duplicate)
            except LeaseholdError as error:
                verdicts.append(error)
                if isinstance(error, QueueFullError):
                    too_fast = isinstance(error, RateLimitedError)
                    self._intake.count_rejected([draft], rate_limited=too_fast)
        return self._store(verdicts)

    def _store_all(self) -> Sequence[Answer] | QueueFullError:
        """Accept all drafts or none. The store detects taken ids when it adds the jobs. It is asked
        beforehand only when another check fails, because a taken id in an earlier draft comes
        first.
        """
        verdicts: list[Verdict] = []
        place = 0
        try:
            for place, draft in enumerate(self._asked):
                verdicts.append(self._duplicate(draft))
                if verdicts[-1] is None:
                    self._admit(place, draft)
            return self._store(verdicts)
        except DuplicateJobError:
            raise
        except LeaseholdError as error:
            new = [each for each, v in zip(self._asked, verdicts, strict=False) if v is None]
            taken = first_taken(self._intake, new)
            if taken is not None:
                raise taken from None
            if not isinstance(error, QueueFullError):
                raise
            too_fast = isinstance(error, RateLimitedError)
            self._intake.count_rejected(self._asked, rate_limited=too_fast)
            return error

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
        """Admit a draft and reserve its key; raises the error that refuses it."""
        if self._crowd is not None and self._admitted >= self._crowd.left:
            raise self._no_room(draft, self._crowd)
        admitted = draft
        if self._gate is not None:
            admitted = self._gate.admit(draft)
        if self._intake.defaults is not None:
            admitted = self._intake.defaults.applied_to(admitted)
        self._drafts[place] = admitted
        self._admitted += 1
        name = _key_name(draft)
        if name is not None:
            self._uses[name] = FirstUse(draft.id, draft.fingerprint(), Status.BLOCKED)

    def _no_room(self, draft: Draft, crowd: Crowd) -> QueueFullError:
        asked = 1 if self._partial else len(self._drafts)
        if asked > crowd.capacity:
            return QueueFullError(
                f"{asked} jobs do not fit at once into a store that holds {crowd.capacity} jobs: "
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

    def _is_pending(self, draft: Draft) -> bool:
        """Whether a draft's job will be pending: due, and not blocked by a dependency."""
        now = self._intake.now
        return due_at(draft, now) <= now and not any(
            is_in_the_way(draft.on_dependency_failure, self._ended(needed))
            for needed in draft.depends_on
        )

    @cached_property
    def _gone(self) -> Collection[str]:
        """The ids of drafts that are duplicates of pruned jobs."""
        gone = {name for name, use in self._uses.items() if use.is_gone}
        return {draft.id for draft in self._asked if _key_name(draft) in gone} if gone else ()

    def _ended(self, job_id: str) -> Status | None:
        own = self._own.get(job_id)
        known = job_id if own is None else self._known_id(own)
        # A draft that is not a duplicate becomes a new job, which has not ended.
        return None if known is None else self._endings.get(known)

    @cached_property
    def _own(self) -> Mapping[str, Draft]:
        return {draft.id: draft for draft in self._asked}

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
        if self._linked:
            plan = SubmitPlan(
                drafts, verdicts, self._endings.__contains__, self._refused, self._gone
            )
            if plan.refusal is not None and not self._partial:
                raise plan.refusal
            verdicts = plan.verdicts
            links = {
                draft.id: self._links_of(draft, needs)
                for draft, needs in zip(drafts, plan.needs, strict=True)
                if needs
            }
        if not any(verdicts):
            return list(self._add(drafts, links))
        new = [draft for draft, verdict in zip(drafts, verdicts, strict=True) if verdict is None]
        added = {each.id: each for each in self._add(new, links)}
        return [
            added[draft.id] if verdict is None else self._as_added(draft, verdict, added)
            for draft, verdict in zip(drafts, verdicts, strict=True)
        ]

    def _as_added(self, draft: Draft, verdict: Answer, added: Mapping[str, Submitted]) -> Answer:
        """A duplicate of another draft in the same call reports that draft's new job."""
        first = added.get(verdict.id) if isinstance(verdict, Submitted) else None
        if first is None or draft.id in self._gone:
            return verdict
        return Submitted(first.id, first.status, is_duplicate=True)

    def _add(self, drafts: Sequence[Draft], links: Mapping[str, NewLinks]) -> list[Submitted]:
        keys = (
            [
                NewKey(place, *name, self._uses[name].digest)
                for place, draft in enumerate(drafts)
                if (name := _key_name(draft)) is not None
            ]
            if self._uses
            else ()
        )
        added = self._intake.add(drafts, links, keys)
        if not links:
            return added
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
