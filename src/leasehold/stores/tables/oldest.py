"""Since when the pending jobs of each queue have been available that wait longest."""

from __future__ import annotations

from leasehold.core.model.priority import FIRST_DEADLINE_TIER


def oldest_from(pending_lanes: str, queue: str, *, moment: str, by_age: str) -> str:
    """The statement for when the pending job of each queue became available that waits longest.

    Where a job's turn is the time since when it is available, the first of a tier waits longest:
    from one tier to the next it is a seek in the primary key, however many jobs there are. Those
    whose turn is another have an index of their own, which `by_age` names. `pending_lanes` finds
    where jobs stand (in their lanes, or parked beside them for a key that is full), `queue` is how
    the queue's name is read, `moment` how a time is.
    """
    in_lane = f"FROM ready WHERE ready.lane = stood.lane AND tier < {FIRST_DEADLINE_TIER}"
    return f"""
        WITH stood(lane, queue) AS ({pending_lanes})
        SELECT {queue},
            min((WITH RECURSIVE head(tier) AS (
                    SELECT (SELECT tier {in_lane} ORDER BY tier LIMIT 1)
                    UNION ALL
                    SELECT (SELECT tier {in_lane} AND tier > head.tier ORDER BY tier LIMIT 1)
                    FROM head WHERE head.tier IS NOT NULL)
                SELECT min((SELECT {moment} {in_lane} AND ready.tier = head.tier
                            ORDER BY turn, seq LIMIT 1))
                FROM head WHERE head.tier IS NOT NULL)),
            min((SELECT available_at FROM ready {by_age}
                WHERE ready.lane = stood.lane AND {moment} IS NOT NULL
                AND (available_at <> turn OR tier >= {FIRST_DEADLINE_TIER})
                ORDER BY available_at LIMIT 1))
        FROM stood GROUP BY queue
    """  # noqa: S608  # our own names
