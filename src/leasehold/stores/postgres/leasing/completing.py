"""The fast path by which nearly all attempts end: their jobs are completed by the process that
leased them. It takes two statements, whatever their number.

Guard of a settlement: the job's row is in `running` with exactly this version, granted at exactly
this moment. The first statement locks the rows and returns them; the second moves them, inside the
server, to `attempt` and `finished`. Only the outcomes are sent to it: everything else about a lease
is in its row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete
from leasehold.core.rules.ends import (
    COMPLETED_CODES,
    COMPLETED_EVENT,
    COMPLETED_STATUS,
    count_completed,
)
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.grants import Grant, Grants
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables.ends import trim_attempts

_EVENT, _STATUS = COMPLETED_CODES

# Rows are locked in the order of their numbers, as in every write.
FIND: Final = """
    SELECT version, acquired_at, ctid, events FROM running
    WHERE seq = ANY($1) ORDER BY seq FOR UPDATE
"""
# The rows were read and locked in this write: each is found where it was.
COMPLETE: Final = f"""
    WITH ended AS (
        DELETE FROM running USING {unnested("tid bytea text bytea")}
            AS outcome (row, result, codec, note)
        WHERE running.ctid = outcome.row RETURNING running.*, result, codec, note
    ), tried AS (
        INSERT INTO attempt
        SELECT seq, version, attempts, worker, acquired_at, $5::bigint, {_EVENT}, {_STATUS},
               attempts, leased_event, events + 1, NULL, NULL, NULL, NULL, note, NULL, NULL,
               lease_micros
        FROM ended)
    INSERT INTO finished
    SELECT seq, {_STATUS}, $5::bigint, acquired_at, available_at, version, attempts, events + 1,
           result, codec, NULL
    FROM ended
"""


class Completions:
    """Settlements that complete different jobs leased by this process."""

    __slots__ = ("_grants", "_settlements", "ahead")

    def __init__(self, settlements: Sequence[Settlement], grants: Sequence[Grant]) -> None:
        self._settlements = settlements
        self._grants = grants
        self.ahead: Statement = (FIND, ([grant[1] for grant in grants],))
        """The statement that finds their leases, which may be sent ahead of everything else."""

    @staticmethod
    def among(settlements: Sequence[Settlement], known: Grants) -> Completions | None:
        """These settlements, if all of them qualify."""
        versions = [settlement.version for settlement in settlements]
        grants = known.find_all(versions)
        if not grants or len(set(versions)) < len(grants):
            return None
        for settlement, grant in zip(settlements, grants, strict=True):
            outcome = settlement.outcome
            if (
                type(outcome) is not Complete
                or grant[0] != settlement.job_id
                or outcome.codec == BLOB_CODEC
                or (outcome.result is not None and len(outcome.result) > PAYLOAD_BYTES_MAX)
            ):
                return None
        return Completions(settlements, grants)

    def settle(self, step: Step) -> list[Settled] | None:
        """Complete the jobs; does nothing if that concerns other rows or some jobs are no longer
        held: then each has to be judged.
        """
        rules = step.rules
        if step.alone or rules.key_limits:
            return None
        if step.found.may_be_failing({grant[2] for grant in self._grants}):
            return None
        if not rules.are_light(grant[3] for grant in self._grants):
            return None
        # Compared by the time of the grant too: in a schema that was dropped and recreated,
        # versions start again.
        found = {row[:2]: row for row in step.first(*self.ahead)}
        try:
            rows = [
                found[settlement.version, grant[6]]
                for settlement, grant in zip(self._settlements, self._grants, strict=True)
            ]
        except KeyError:
            return None
        outcomes: list[Any] = [settlement.outcome for settlement in self._settlements]
        step.execute(
            COMPLETE,
            (
                RowPlaces([row[2] for row in rows]),
                [outcome.result for outcome in outcomes],
                [None if outcome.codec == "json" else outcome.codec for outcome in outcomes],
                [outcome.note for outcome in outcomes],
                step.now,
            ),
        )
        step.push(len(rows))
        self._count(step)
        events_max = 2 * step.settings.attempt_records_max
        if max(row[3] for row in rows) >= events_max:
            for grant, (*_, events) in zip(self._grants, rows, strict=True):
                if events >= events_max:
                    trim_attempts(step, grant[1])
        step.jobs_ended([settlement.job_id for settlement in self._settlements])
        return [
            Settled(each.job_id, each.version, COMPLETED_EVENT, COMPLETED_STATUS, grant[5])
            for each, grant in zip(self._settlements, self._grants, strict=True)
        ]

    def _count(self, step: Step) -> None:
        now = step.now
        took: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        for _, _, lane, _, worker, _, acquired_at in self._grants:
            took[lane, worker].append(now - acquired_at)
        for (lane, worker), micros in took.items():
            count_completed(step, step.measured, lane, worker, micros)
