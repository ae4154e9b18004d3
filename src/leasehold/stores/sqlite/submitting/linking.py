"""Jobs that depend on others: how they are submitted and replayed, and what may not be discarded.

Guard: where a dependency stands is read in the write that stores its dependent. It has either ended
before, which is seen here, or it ends later, and finds the row in `blocker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from leasehold.core.dependencies import (
    Plan,
    Verdict,
    is_in_the_way,
    refuse_replay,
)
from leasehold.core.graph import order_of
from leasehold.core.job import Draft, Job
from leasehold.core.limits import IDEMPOTENCY_SECONDS
from leasehold.core.records import Submitted
from leasehold.core.refusals import id_is_taken
from leasehold.core.status import Status
from leasehold.errors import LeaseholdError, QueueFullError
from leasehold.stores.sqlite.schema.codes import POLICY_CODE, STATUS_OF
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.submitting.dependents import resolve
from leasehold.stores.sqlite.submitting.gate import Gate
from leasehold.stores.sqlite.submitting.lanes import Lanes
from leasehold.stores.sqlite.submitting.submit import (
    JOB_EXISTS,
    KEEP_KEY,
    STATUS_NOW,
    due_of,
    insert,
    known_id,
    known_key,
    through_gate,
)
from leasehold.stores.sqlite.writing.step import Step

FIND_DEPENDENCY: Final = """
    SELECT job.seq, finished.status FROM job LEFT JOIN finished USING (seq) WHERE id = ?
"""
ADD_DEPENDENT: Final = "INSERT INTO dependent VALUES (?, ?, ?, NULL)"
ADD_DEPENDENCY: Final = "INSERT INTO dependency VALUES (?, ?, ?, ?)"
ADD_BLOCKER: Final = "INSERT INTO blocker VALUES (?, ?)"
REMEMBER_ENDED: Final = "INSERT OR IGNORE INTO resolving (seq) VALUES (?)"

# What was discarded since is not waited for: the join leaves it out.
DEPENDENCIES_NOW: Final = """
    SELECT needs, job.id, finished.status
    FROM dependency JOIN job ON job.seq = needs LEFT JOIN finished ON finished.seq = needs
    WHERE dependency.seq = ? ORDER BY n
"""
WAIT_AGAIN: Final = "INSERT INTO waiting VALUES (?, 1, NULL, ?, ?, ?, ?, NULL)"
# A replay means now, as for any job: what is left of a delay does not count any more.
START_ANEW: Final = "UPDATE dependent SET ended_by = NULL, due = ? WHERE seq = ?"
LINKS_AMONG: Final = """
    SELECT job.id, needed.id FROM job JOIN dependency USING (seq) JOIN job AS needed
        ON needed.seq = needs
    WHERE job.id IN (SELECT value FROM json_each(?))
"""
NEEDED_BY: Final = """
    SELECT job.id FROM dependency JOIN job USING (seq)
    WHERE needs = ? AND seq NOT IN (SELECT seq FROM finished) LIMIT 1
"""


def submit(
    step: Step,
    lanes: Lanes,
    drafts: Sequence[Draft],
    *,
    partial: bool,
    refused: Mapping[str, LeaseholdError],
) -> list[Submitted | LeaseholdError] | QueueFullError:
    """Store drafts of which some depend on each other, or on jobs that are there."""
    found = _Finder(step)
    return through_gate(
        step,
        lanes,
        drafts,
        lambda gate: _submit(step, lanes, drafts, gate, found, partial=partial, refused=refused),
        partial=partial,
        is_pending=_is_pending(step, drafts, found),
    )


def _is_pending(step: Step, drafts: Sequence[Draft], found: _Finder) -> Callable[[Draft], bool]:
    """Which of these drafts will be pending: due, and with nothing in their way."""
    own = {draft.id: draft for draft in drafts}

    def ended(job_id: str) -> Status | None:
        if job_id in own:
            # A duplicate stands for the job it is one of; any other draft is a job to come.
            known = known_id(step, own[job_id])
            if known is None or known == job_id:
                return None
            job_id = known
        place = found(job_id)
        return None if place is None else place[1]

    return lambda draft: (
        due_of(draft, step.now) <= step.now
        and not any(
            is_in_the_way(draft.on_dependency_failure, ended(needed)) for needed in draft.depends_on
        )
    )


def _submit(
    step: Step,
    lanes: Lanes,
    asked: Sequence[Draft],
    gate: Gate | None,
    found: _Finder,
    *,
    partial: bool,
    refused: Mapping[str, LeaseholdError],
) -> list[Submitted | LeaseholdError]:
    drafts = list(asked)
    verdicts = _verdicts(step, lanes, drafts, gate)
    plan = Plan(drafts, verdicts, lambda job_id: bool(found(job_id)), refused)
    if plan.refusal is not None and not partial:
        raise plan.refusal
    new = [index for index, verdict in enumerate(plan.verdicts) if verdict is None]
    stored = _store(
        step, lanes, [drafts[index] for index in new], [plan.needs[index] for index in new], found
    )
    made = {drafts[index].id: answer for index, answer in zip(new, stored, strict=True)}
    return [
        made[draft.id] if verdict is None else _as_it_was_made(verdict, made)
        for draft, verdict in zip(drafts, plan.verdicts, strict=True)
    ]


def _as_it_was_made(verdict: Submitted | LeaseholdError, made: Mapping[str, Any]) -> Any:
    """The duplicate of a draft of the same call stands where that draft's job does."""
    first = made.get(verdict.id) if isinstance(verdict, Submitted) else None
    if first is None:
        return verdict
    return Submitted(first.id, first.status, is_duplicate=True)


class _Finder:
    """Where dependencies stand, each looked up once: number, and how it ended if it has."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._found: dict[str, tuple[int, Status | None] | None] = {}

    def __call__(self, job_id: str) -> tuple[int, Status | None] | None:
        if job_id not in self._found:
            row = self._step.execute(FIND_DEPENDENCY, (job_id,)).fetchone()
            ended = None if row is None or row[1] is None else STATUS_OF[row[1]]
            self._found[job_id] = None if row is None else (row[0], ended)
        return self._found[job_id]


def _verdicts(step: Step, lanes: Lanes, drafts: list[Draft], gate: Gate | None) -> list[Verdict]:
    """Each draft by itself, its dependencies left aside; those let in get their queue's defaults.

    One after the other: a draft that is refused has taken neither its id nor its key.
    """
    ids: set[str] = set()
    keys: dict[tuple[str, str], Draft] = {}
    verdicts: list[Verdict] = []
    for index, draft in enumerate(drafts):
        try:
            verdict = _known(step, draft, keys)
            if verdict is None:
                if draft.id in ids or step.execute(JOB_EXISTS, (draft.id,)).fetchone():
                    raise id_is_taken(draft.id)
                if gate is not None:
                    drafts[index] = gate.admit(draft)
                ids.add(draft.id)
                if draft.idempotency_key is not None:
                    keys[draft.queue, draft.idempotency_key] = draft
            verdicts.append(verdict)
        except LeaseholdError as error:
            verdicts.append(error)
            if isinstance(error, QueueFullError):
                step.count(lanes.number(step, draft.queue, draft.task), "total_rejected")
    return verdicts


def _known(step: Step, draft: Draft, keys: Mapping[tuple[str, str], Draft]) -> Submitted | None:
    if draft.idempotency_key is None:
        return None
    first = keys.get((draft.queue, draft.idempotency_key))
    if first is None:
        return known_key(step, draft)
    if first.fingerprint() != draft.fingerprint():
        raise draft.conflict_with(first.id)
    return Submitted(first.id, Status.BLOCKED, is_duplicate=True)


def _store(
    step: Step,
    lanes: Lanes,
    drafts: Sequence[Draft],
    needs: Sequence[tuple[str, ...]],
    found: _Finder,
) -> list[Submitted | LeaseholdError]:
    seq_of = {draft.id: seq for seq, draft in enumerate(drafts, start=step.next_seq)}
    dependents: list[tuple[int, int, int]] = []
    links: list[tuple[int, int, int, str]] = []
    blockers: list[tuple[int, int]] = []
    ended_badly: set[int] = set()
    for draft, needed_ids in zip(drafts, needs, strict=True):
        if not needed_ids:
            continue
        seq = seq_of[draft.id]
        policy = draft.on_dependency_failure
        dependents.append((seq, POLICY_CODE[policy], due_of(draft, step.now)))
        for n, needed_id in enumerate(needed_ids):
            needed, ended = _place(needed_id, seq_of, found)
            links.append((seq, n, needed, needed_id))
            if is_in_the_way(policy, ended):
                blockers.append((needed, seq))
                if ended is not None:
                    ended_badly.add(needed)
    blocked = {seq for _, seq in blockers}
    answers = insert(step, lanes, drafts, {id_ for id_, seq in seq_of.items() if seq in blocked})
    step.executemany(ADD_DEPENDENT, dependents)
    step.executemany(ADD_DEPENDENCY, links)
    _block(step, blockers)
    if seq_of:
        inheritance.raise_needed(step, min(seq_of.values()), max(seq_of.values()))
    _keep_keys(step, drafts, seq_of)
    if ended_badly:
        step.executemany(REMEMBER_ENDED, [(needed,) for needed in ended_badly])
        step.some_unresolved = True
        resolve(step)
        return [_as_it_is_now(step, answer, seq_of) for answer in answers]
    return answers


def _place(
    job_id: str, seq_of: Mapping[str, int], find: Callable[[str], tuple[int, Status | None] | None]
) -> tuple[int, Status | None]:
    if job_id in seq_of:
        return seq_of[job_id], None
    place = find(job_id)
    assert place is not None, "an unknown dependency was let through"
    return place


def _keep_keys(step: Step, drafts: Sequence[Draft], seq_of: Mapping[str, int]) -> None:
    until = step.now + IDEMPOTENCY_SECONDS * 1_000_000
    keys = [
        (draft.queue, draft.idempotency_key, seq_of[draft.id], draft.fingerprint(), until)
        for draft in drafts
        if draft.idempotency_key is not None
    ]
    step.executemany(KEEP_KEY, keys)


def _as_it_is_now(
    step: Step, answer: Submitted | LeaseholdError, seq_of: Mapping[str, int]
) -> Submitted | LeaseholdError:
    if isinstance(answer, LeaseholdError) or answer.status is not Status.BLOCKED:
        return answer
    row: Any = step.execute(STATUS_NOW, {"seq": seq_of[answer.id]}).fetchone()
    return Submitted(answer.id, STATUS_OF[row[0]])


# -- replaying and discarding ------------------------------------------------------------------


def waits_again_for(step: Step, seq: int, job: Job) -> list[int]:
    """The numbers of the jobs that a replayed job is to wait for; refuses what would be in vain."""
    if not job.depends_on:
        return []
    unfinished = []
    dependencies: list[tuple[Any, ...]] = step.execute(DEPENDENCIES_NOW, (seq,)).fetchall()
    for needed, needed_id, code in dependencies:
        if code is None:
            unfinished.append(needed)
        elif is_in_the_way(job.on_dependency_failure, STATUS_OF[code]):
            raise refuse_replay(job.id, needed_id, STATUS_OF[code])
    step.execute(START_ANEW, (step.now, seq))
    return unfinished


def block_again(
    step: Step, seq: int, needed: Sequence[int], *, version: int, attempts: int, events: int
) -> None:
    """Put a replayed job where it waits for its dependencies."""
    step.execute(WAIT_AGAIN, (seq, step.now, version, attempts, events))
    _block(step, [(each, seq) for each in needed])
    inheritance.raise_needed(step, seq, seq)


def _block(step: Step, blockers: Sequence[tuple[int, int]]) -> None:
    step.executemany(ADD_BLOCKER, blockers)
    step.somebody_waits = True


def replay_order(step: Step, job_ids: Sequence[str]) -> list[int]:
    """The places of these ids, dependencies first."""
    wanted = msgspec.json.encode(job_ids).decode()
    links: list[tuple[Any, ...]] = step.execute(LINKS_AMONG, (wanted,)).fetchall()
    depends_on: dict[str, list[str]] = {}
    for job_id, needed_id in links:
        depends_on.setdefault(job_id, []).append(needed_id)
    return order_of(job_ids, depends_on)
