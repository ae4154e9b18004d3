"""Submit: every draft is looked at before any job is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from leasehold.core.dependencies import is_in_the_way
from leasehold.core.drain import RETRY_SECONDS_UNKNOWN
from leasehold.core.job import Draft
from leasehold.core.limits import IDEMPOTENCY_SECONDS
from leasehold.core.records import Submitted
from leasehold.core.refusals import id_is_taken
from leasehold.core.status import Status
from leasehold.env import to_micros
from leasehold.errors import (
    LeaseholdError,
    QueueFullError,
)
from leasehold.stores.memory import dependents, inheritance
from leasehold.stores.memory.gate import Gate
from leasehold.stores.memory.record import Record, record_of
from leasehold.stores.memory.state import KnownKey, State


def submit(
    state: State,
    drafts: Sequence[Draft],
    refused: Mapping[str, LeaseholdError] = MappingProxyType({}),
    *,
    partial: bool = False,
) -> list[Submitted | LeaseholdError]:
    """Admit the drafts one by one, and only then make the jobs visible.

    `refused` are those of the call that were bad in themselves.
    """
    admitted: list[Record] = []
    answers: list[Submitted | LeaseholdError] = []
    if state.keys:
        state.drop_expired_keys()
    linked = False
    room = _room(state, drafts, partial)
    has_gate = state.has_rules or state.settings.draft_defaults is not None
    gate = None
    if has_gate:
        gate = Gate(state, drafts, is_pending=_is_pending(state, drafts), partial=partial)
    for draft in drafts:
        linked = linked or bool(draft.depends_on)
        try:
            answers.append(_admit(state, draft, admitted, room, gate))
        except LeaseholdError as error:
            if isinstance(error, QueueFullError):
                for each in [draft] if partial else drafts:
                    state.queue(each.queue).totals.rejected += 1
            if not partial:
                _withdraw(state, admitted)
                raise
            answers.append(error)
    if linked:
        answers = _add_linked(state, drafts, admitted, answers, refused, partial)
    else:
        for record in admitted:
            state.add(record)
    if gate is not None:
        gate.write_down()
    return answers


def _add_linked(
    state: State,
    drafts: Sequence[Draft],
    admitted: list[Record],
    answers: list[Submitted | LeaseholdError],
    refused: Mapping[str, LeaseholdError],
    partial: bool,
) -> list[Submitted | LeaseholdError]:
    """Make jobs visible of which some depend on others, or refuse them after all."""
    records = {record.id: record for record in admitted}
    plan = dependents.plan_of(state, drafts, answers, records, refused)
    if plan.refusal is not None and not partial:
        _withdraw(state, admitted)
        raise plan.refusal
    new = [
        (records[draft.id], needs)
        for draft, verdict, needs in zip(drafts, plan.verdicts, plan.needs, strict=True)
        if verdict is None
    ]
    kept = {record.id for record, _ in new}
    _withdraw(state, [record for record in admitted if record.id not in kept])
    for record, needs in new:
        if needs:
            dependents.link(state, record, needs)
    inheritance.raise_needed(state, [record for record, needs in new if needs])
    for record, _ in new:
        state.add(record)
    dependents.resolve(state)
    return [
        Submitted(draft.id, records[draft.id].status)
        if verdict is None
        else _as_it_was_made(verdict, records)
        for draft, verdict in zip(drafts, plan.verdicts, strict=True)
    ]


def _as_it_was_made(
    verdict: Submitted | LeaseholdError, records: Mapping[str, Record]
) -> Submitted | LeaseholdError:
    """The duplicate of a draft of the same call stands where that draft's job does."""
    if isinstance(verdict, Submitted) and verdict.id in records:
        return Submitted(verdict.id, records[verdict.id].status, is_duplicate=True)
    return verdict


def _admit(
    state: State, draft: Draft, admitted: list[Record], room: Room, gate: Gate | None
) -> Submitted:
    """Reserve a draft's id and key; raises what stands against it."""
    if draft.idempotency_key is not None:
        known = state.keys.get((draft.queue, draft.idempotency_key))
        if known is not None:
            return _duplicate(state, draft, known)
    if draft.id in state.records:
        raise id_is_taken(draft.id)
    if room.left is not None and len(admitted) >= room.left:
        raise _no_room(state, draft, room)
    if gate is not None:
        draft = gate.admit(draft)
    run_at = _run_at(state, draft)
    record = record_of(draft, seq=state.last_seq + 1, now=state.now, run_at=run_at)
    state.last_seq += 1
    state.records[draft.id] = record
    admitted.append(record)
    if draft.idempotency_key is not None:
        state.keys[draft.queue, draft.idempotency_key] = KnownKey(
            draft.id,
            draft.fingerprint(),
            state.now + IDEMPOTENCY_SECONDS * 1_000_000,
            record.status,
        )
    return Submitted(draft.id, record.status)


class Room(NamedTuple):
    """How many more jobs the store holds (None for any number), and how many come together."""

    left: int | None
    asked: int
    partial: bool


def _room(state: State, drafts: Sequence[Draft], partial: bool) -> Room:
    left = None if state.capacity is None else state.capacity - state.live_count
    return Room(0 if state.is_full_of_dead else left, 1 if partial else len(drafts), partial)


def _no_room(state: State, draft: Draft, room: Room) -> QueueFullError:
    if state.capacity is not None and room.asked > state.capacity:
        return QueueFullError(
            f"{room.asked} jobs never fit at once into a memory store that holds {state.capacity} "
            "jobs: submit fewer at a time, or raise capacity"
        )
    if state.is_full_of_dead:
        return QueueFullError(
            f"job {draft.id} was not stored: the memory store holds {state.capacity} dead letters "
            "or more, which is its capacity. Replay or discard some, or raise capacity.",
            RETRY_SECONDS_UNKNOWN,
        )
    return QueueFullError(
        f"job {draft.id} was not stored: the memory store holds {state.capacity} jobs that "
        "have not ended, which is its capacity. Wait until some have, or raise capacity.",
        RETRY_SECONDS_UNKNOWN,
    )


def _is_pending(state: State, drafts: Sequence[Draft]) -> Callable[[Draft], bool]:
    """Which of these drafts will be pending: due, and with nothing in their way."""
    own = {draft.id: draft for draft in drafts}

    def ended(job_id: str) -> Status | None:
        # A duplicate stands for the job it is one of; any other draft is a job to come.
        known = state.known_id(own[job_id]) if job_id in own else None
        record = state.records.get(known or job_id)
        return None if record is None else dependents.ended_as(record)

    return lambda draft: (
        _run_at(state, draft) <= state.now
        and not any(
            is_in_the_way(draft.on_dependency_failure, ended(needed)) for needed in draft.depends_on
        )
    )


def _duplicate(state: State, draft: Draft, known: KnownKey) -> Submitted:
    if known.digest != draft.fingerprint():
        raise draft.conflict_with(known.job_id)
    first = state.records.get(known.job_id)
    status: Status = known.status if first is None else first.status
    return Submitted(known.job_id, status, is_duplicate=True)


def _withdraw(state: State, admitted: list[Record]) -> None:
    for record in admitted:
        del state.records[record.id]
        state.free_key(record)


def _run_at(state: State, draft: Draft) -> int:
    if draft.run_at is not None:
        return max(state.now, to_micros(draft.run_at))
    return state.now + round((draft.delay_seconds or 0.0) * 1e6)
