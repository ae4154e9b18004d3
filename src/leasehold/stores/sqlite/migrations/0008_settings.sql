-- Settings of the store, and queues that keep their ended jobs for a time of their own.

-- Raised with every change of a setting, and read with the clock, as queue_generation is.
ALTER TABLE store_state ADD COLUMN settings_generation INTEGER NOT NULL DEFAULT 0;

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL  -- JSON
) WITHOUT ROWID;

-- Where a clean-up does not go in the order of job numbers alone: the lane, or the moment of an end,
-- in which it has come to `position`.
ALTER TABLE cleanup ADD COLUMN major INTEGER NOT NULL DEFAULT 0;
