"""The door of the ready table: every pending job enters, moves and leaves here, and nowhere else.

Guard: a job's row is out of the other state tables when it enters, and goes into one of them in the
write in which it leaves. Accounts of pending jobs are kept here.

`core.rules.placing` says where a job stands. Nearly all stand where their own row in `job` says;
only the others have a row in `place`. `tables.rebalance` has how jobs are placed anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from leasehold.core.model.priority import DEFAULT_SCORING, Scoring
from leasehold.core.rules import key_accounts, rebalancing
from leasehold.core.rules.key_accounts import Counted
from leasehold.core.rules.measuring import count_entered, count_left
from leasehold.core.rules.placing import PendingEntry, Standing, entering, moving
from leasehold.stores.postgres.leasing import parking
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.rebalance import TablePasses

# A new job's place is the default one, unless it has a deadline or its queue a max_priority.
ENTER_NEW: Final = f"""
    INSERT INTO ready
    SELECT lane, (100 - priority) * 1000, turn, seq, 0, 0, 1, turn, parent_id
    FROM {unnested("bigint bigint bigint bigint text")}
        AS new (lane, priority, turn, seq, parent_id)
"""  # noqa: S608  # our own names
ENTER: Final = f"""
    INSERT INTO ready SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint text")
}
"""  # noqa: S608  # our own names
MOVE: Final = f"""
    UPDATE ready SET tier = to_tier, turn = to_turn FROM {
    unnested("bigint bigint bigint bigint bigint bigint")
} AS moved (to_tier, to_turn, lane, tier, turn, seq)
    WHERE ready.lane = moved.lane AND ready.tier = moved.tier AND ready.turn = moved.turn
        AND ready.seq = moved.seq
"""  # noqa: S608  # our own names
REMEMBER_PLACES: Final = f"""
    INSERT INTO place (seq, tier, turn, crosses_at)
    SELECT * FROM {unnested("bigint bigint bigint bigint")}
    ON CONFLICT (seq) DO UPDATE
    SET tier = excluded.tier, turn = excluded.turn, crosses_at = excluded.crosses_at
"""  # noqa: S608  # our own names
FORGET_PLACES: Final = "DELETE FROM place WHERE seq = ANY($1)"

KEY_OF: Final = """
    SELECT coalesce(place.lane, job.lane), coalesce(place.tier, (100 - priority) * 1000),
           coalesce(turn, created_at), job.seq
    FROM job LEFT JOIN place USING (seq) WHERE job.seq = ANY($1)
"""
LEAVE_BY_NUMBERS: Final = f"DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({KEY_OF})"  # noqa: S608  # our own names
COUNT_EVENT: Final = f"""
    UPDATE ready SET events = events + 1 WHERE (lane, tier, turn, seq) IN ({KEY_OF})
"""  # noqa: S608  # our own names
# A parked job does not stand in the lane it belongs to.
HOME: Final = "SELECT lane FROM job WHERE seq = $1"

Newcomer = tuple[int, int, int, int, str | None]
"""lane, priority, the time now, number and parent_id of a job that was just submitted."""


def scoring_of(step: Step, lane: int) -> Scoring:
    """What counts in the queue of a lane."""
    rule = step.rules.get(step.queue_of(lane) or "") if step.rules else None
    return DEFAULT_SCORING if rule is None else rule.config.scoring


def enter_new(step: Step, newcomers: Sequence[Newcomer]) -> None:
    """Let jobs in that were submitted in this very write, each at its default place."""
    step.look_again()
    step.many(ENTER_NEW, newcomers)
    count_entered(step.count, newcomers)


def enter(step: Step, entries: Sequence[PendingEntry]) -> None:
    """Let jobs in that come from elsewhere, or that need a place of their own."""
    step.look_again()
    keys, places = entering(entries, step.now, cache(partial(scoring_of, step)))
    rows = [
        (*key, each.version, each.attempts, each.events, each.available_at, each.parent_id)
        for key, each in zip(keys, entries, strict=True)
    ]
    step.many(ENTER, rows)
    step.many(REMEMBER_PLACES, places)
    count_entered(step.count, [(each.lane, each.priority) for each in entries])
    if step.rules.key_limits:
        key_accounts.enter(KeyShelf(step), keys)


def leave(step: Step, counted: Sequence[tuple[int, int]], placed: Sequence[int]) -> None:
    """Count jobs out whose rows a lease has just moved to `running` (`grant.GRANT`).

    `counted` has the lane and priority of each; `placed` are those with a place of their own.
    """
    if placed:
        step.execute(FORGET_PLACES, (list(placed),))
    count_left(step.count, counted)


def leave_by_numbers(step: Step, jobs: Sequence[tuple[int, int, int]]) -> None:
    """Take jobs out, wherever they stand; each is given by its number, lane and own priority."""
    step.look_again()
    seqs = [seq for seq, *_ in jobs]
    counted = parking.counted_among(step, seqs) if step.rules.key_limits else {}
    step.execute(LEAVE_BY_NUMBERS, (seqs,))
    step.execute(FORGET_PLACES, (seqs,))
    count_left(step.count, [(lane, priority) for _, lane, priority in jobs])
    key_accounts.left(KeyShelf(step), counted.values())


def reprioritize(step: Step, before: Standing, priority: int) -> None:
    """Put a job where its new priority of its own wants it, and count it there."""
    move(step, [before._replace(priority=priority, base=priority)])
    home: Any = step.execute(HOME, (before.seq,)).fetchone()
    count_left(step.count, [(home[0], before.priority)])
    count_entered(step.count, [(home[0], priority)])


def count_event(step: Step, seq: int) -> None:
    """Count one more history event of a job that stays pending."""
    step.look_again()
    step.execute(COUNT_EVENT, ([seq],))


def move(step: Step, standings: Sequence[Standing]) -> None:
    """Put pending jobs where they belong now, by the values given here."""
    counted = parking.counted_among(step, [each.seq for each in standings])
    moves = moving(standings, counted, step.now, cache(partial(scoring_of, step)))
    step.look_again()
    step.many(MOVE, moves.moved)
    step.many(REMEMBER_PLACES, moves.placed)
    if moves.unplaced:
        step.execute(FORGET_PLACES, (moves.unplaced,))
    if counted:
        key_accounts.moved(KeyShelf(step), counted.values())


class PassBook(TablePasses):
    """See `leasehold.core.rules.rebalancing.PassBook`."""

    __slots__ = ()
    write: Step

    def __init__(self, step: Step) -> None:
        super().__init__(step, KeyShelf(step))

    def move(self, jobs: Sequence[Standing]) -> None:
        move(self.write, jobs)

    def counted_among(self, seqs: Sequence[int]) -> Mapping[int, Counted]:
        return parking.counted_among(self.write, seqs)


def rebalance(step: Step) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
    return rebalancing.rebalance(PassBook(step))
