-- Dependencies. `job` and its state tables know nothing of them, so that who uses none pays nothing;
-- a blocked job has a row in `waiting` with no due time, and one in `blocker` for each job it waits for.

-- One row per job that was submitted with dependencies.
CREATE TABLE dependent (
    seq      INTEGER PRIMARY KEY,
    policy   INTEGER NOT NULL,  -- what a dependency's bad end does to it; the numbers in codes.py
    due      INTEGER NOT NULL,  -- when it may run at the earliest, once nothing blocks it
    ended_by INTEGER            -- the dependency whose end has ended it
);

-- Who depends on whom, for good. `needs` is the dependency's number; it may be discarded by now,
-- which is why its id is kept too.
CREATE TABLE dependency (
    seq   INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    needs INTEGER NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (seq, n)
) WITHOUT ROWID;
CREATE INDEX dependency_by_needs ON dependency (needs, seq);

-- Who still waits for whom. Deleting a row is the fence: a dependency's end counts once. Few rows,
-- since what has ended blocks nobody: a store without waiting dependents has none.
CREATE TABLE blocker (
    needs INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (needs, seq)
) WITHOUT ROWID;
CREATE INDEX blocker_by_seq ON blocker (seq);

-- Jobs that have ended and still block some: there were too many for one write, and the next goes on.
CREATE TABLE resolving (
    seq INTEGER PRIMARY KEY
);
