-- Priority scoring: pending jobs by tier and turn instead of by rank. `core.priority` says what these
-- are; within one lane and tier, the order never changes.
CREATE TABLE ready_by_tier (
    lane         INTEGER NOT NULL,
    tier         INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    parent_id    TEXT,
    PRIMARY KEY (lane, tier, turn, seq)
) WITHOUT ROWID;

-- What was pending goes to its default place, in the order it had.
INSERT INTO ready_by_tier
    SELECT ready.lane, (100 - job.priority) * 1000, job.created_at, seq, version, attempts, events,
           available_at, ready.parent_id
    FROM ready JOIN job USING (seq);
DROP TABLE ready;
ALTER TABLE ready_by_tier RENAME TO ready;
CREATE INDEX ready_by_parent ON ready (parent_id, lane, tier, turn, seq)
    WHERE parent_id IS NOT NULL;

-- Where the few pending jobs stand that do not stand at their default place: those with a deadline,
-- and those that were delayed, retried, or raised by others. The default place follows from the job's
-- own row, so that the many cost nothing here.
CREATE TABLE place (
    seq        INTEGER PRIMARY KEY,
    tier       INTEGER NOT NULL,
    turn       INTEGER NOT NULL,
    crosses_at INTEGER  -- when it belongs into another tier
);
CREATE INDEX place_by_crossing ON place (crosses_at) WHERE crosses_at IS NOT NULL;

-- Jobs that others wait for, with the priority they have from those, where it is above their own.
CREATE TABLE raised (
    seq  INTEGER PRIMARY KEY,
    base INTEGER NOT NULL
);

-- Lanes whose pending jobs are to be placed anew, because what counts in their queue has changed; and
-- how far that has got.
CREATE TABLE rescoring (
    lane INTEGER PRIMARY KEY,
    tier INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    seq  INTEGER NOT NULL
);
-- Those that were pending before there was scoring count from now on like all others.
INSERT INTO rescoring SELECT id, -1, 0, 0 FROM lane WHERE pending > 0;
