-- Metrics. The lanes' counters grow for ever; the first write of a new minute looks at them before it
-- changes anything, and keeps what they grew by since the last look. So a series costs the jobs
-- nothing. Minutes and days are counted from 1970, UTC.

-- The minute of the latest writes: what the counters grew by since the last look happened in it. Each
-- write reads it with the clock.
ALTER TABLE store_state ADD COLUMN open_minute INTEGER NOT NULL DEFAULT 0;

ALTER TABLE lane ADD COLUMN total_leased INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN total_wait_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN total_run_micros INTEGER NOT NULL DEFAULT 0;

-- Pending jobs by bands of priority: below 50, below 75, below 100, and 100.
ALTER TABLE lane ADD COLUMN pending_low INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN pending_medium INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN pending_high INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN pending_critical INTEGER NOT NULL DEFAULT 0;
UPDATE lane SET pending_low = found.low, pending_medium = found.medium, pending_high = found.high,
    pending_critical = found.critical
FROM (
    SELECT ready.lane AS id, sum(priority < 50) AS low, sum(priority BETWEEN 50 AND 74) AS medium,
        sum(priority BETWEEN 75 AND 99) AS high, sum(priority >= 100) AS critical
    FROM ready JOIN job USING (seq) GROUP BY ready.lane
) AS found WHERE found.id = lane.id;

-- The pending jobs whose turn is not the time since when they are available, by that time: those near
-- their deadline, and those of a queue in strict order that were delayed or retried. Of the others, the
-- first of each tier is the one that waits longest, so that the many cost nothing here.
CREATE INDEX ready_by_age ON ready (lane, available_at)
    WHERE available_at <> turn OR tier >= 1099511627776;

-- How long jobs waited (kind 0) and ran (kind 1), since the last look: the buckets of
-- core/histogram.py. A handful of rows per lane, emptied every minute.
CREATE TABLE measured (
    lane   INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    jobs   INTEGER NOT NULL,
    PRIMARY KEY (lane, kind, bucket)
) WITHOUT ROWID;

-- The counters as they were at the last look.
CREATE TABLE sampled (
    queue       TEXT PRIMARY KEY,
    submitted   INTEGER NOT NULL,
    leased      INTEGER NOT NULL,
    completed   INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    retried     INTEGER NOT NULL,
    dead        INTEGER NOT NULL,
    cancelled   INTEGER NOT NULL,
    recovered   INTEGER NOT NULL,
    rejected    INTEGER NOT NULL,
    cleaned     INTEGER NOT NULL,
    wait_micros INTEGER NOT NULL,
    run_micros  INTEGER NOT NULL,
    pending     INTEGER NOT NULL
) WITHOUT ROWID;
-- What happened before this migration belongs to no minute.
INSERT INTO sampled
SELECT queue, sum(total_submitted), 0, sum(total_completed), sum(total_failed), sum(total_retried),
    sum(total_dead), sum(total_cancelled), sum(total_recovered), sum(total_rejected),
    sum(total_cleaned), 0, 0, sum(pending)
FROM lane GROUP BY queue;

-- What happened in each minute in which anything did. Histograms are JSON objects, bucket to number.
CREATE TABLE minute (
    queue          TEXT NOT NULL,
    at             INTEGER NOT NULL,
    submitted      INTEGER NOT NULL,
    leased         INTEGER NOT NULL,
    completed      INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    retried        INTEGER NOT NULL,
    dead           INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,
    recovered      INTEGER NOT NULL,
    rejected       INTEGER NOT NULL,
    cleaned        INTEGER NOT NULL,
    wait_micros    INTEGER NOT NULL,
    run_micros     INTEGER NOT NULL,
    pending_before INTEGER NOT NULL,
    pending        INTEGER NOT NULL,
    deepest        INTEGER NOT NULL,
    waits          TEXT NOT NULL,
    runs           TEXT NOT NULL,
    PRIMARY KEY (queue, at)
) WITHOUT ROWID;
-- To forget the oldest of whichever queue.
CREATE INDEX minute_by_time ON minute (at);

-- The sums of the minutes of each day.
CREATE TABLE day (
    queue          TEXT NOT NULL,
    at             INTEGER NOT NULL,
    submitted      INTEGER NOT NULL,
    leased         INTEGER NOT NULL,
    completed      INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    retried        INTEGER NOT NULL,
    dead           INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,
    recovered      INTEGER NOT NULL,
    rejected       INTEGER NOT NULL,
    cleaned        INTEGER NOT NULL,
    wait_micros    INTEGER NOT NULL,
    run_micros     INTEGER NOT NULL,
    pending_before INTEGER NOT NULL,
    pending        INTEGER NOT NULL,
    deepest        INTEGER NOT NULL,
    waits          TEXT NOT NULL,
    runs           TEXT NOT NULL,
    PRIMARY KEY (queue, at)
) WITHOUT ROWID;
CREATE INDEX day_by_time ON day (at);
