-- Queues with rules of their own. A queue without a row here has none: it takes and runs everything.

-- Raised with every change of a rule or state. Each write reads it with the clock, so that every
-- process knows for nothing whether the rules it remembers are still true.
ALTER TABLE store_state ADD COLUMN queue_generation INTEGER NOT NULL DEFAULT 0;

CREATE TABLE queue (
    name         TEXT PRIMARY KEY,
    state        TEXT NOT NULL,
    config       TEXT NOT NULL,
    -- How many of its jobs had ended at two moments, to measure how fast it drains.
    older_at     INTEGER,
    older_ended  INTEGER,
    newer_at     INTEGER,
    newer_ended  INTEGER
) WITHOUT ROWID;

-- Token buckets that are not full: when each will be, in nanoseconds since 1970.
CREATE TABLE bucket (
    queue   TEXT NOT NULL,
    name    TEXT NOT NULL,
    full_at INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE INDEX bucket_by_time ON bucket (full_at);
