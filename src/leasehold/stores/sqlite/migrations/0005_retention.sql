-- Retention: clean-ups and their records, the archive, and what is left of pruned jobs.

-- One row per clean-up. While it goes on it is also its own memory: which phase it is in, and up to
-- which job number it has looked. Whoever prunes next learns here whether it is its turn.
CREATE TABLE cleanup (
    run               INTEGER PRIMARY KEY,
    mode              TEXT NOT NULL,
    actor             TEXT NOT NULL,
    started_at        INTEGER NOT NULL,
    active_at         INTEGER NOT NULL,
    ended_at          INTEGER,
    phase             INTEGER NOT NULL,
    position          INTEGER NOT NULL,
    bound             INTEGER,  -- where the phase ends; NULL before it has been looked for
    completed         INTEGER NOT NULL DEFAULT 0,
    cancelled         INTEGER NOT NULL DEFAULT 0,
    dead              INTEGER NOT NULL DEFAULT 0,
    archived          INTEGER NOT NULL DEFAULT 0,
    results_dropped   INTEGER NOT NULL DEFAULT 0,
    histories_dropped INTEGER NOT NULL DEFAULT 0,
    archive_dropped   INTEGER NOT NULL DEFAULT 0,
    writes            INTEGER NOT NULL DEFAULT 0,
    lock_micros       INTEGER NOT NULL DEFAULT 0
);

-- The archive: one partition per day on which jobs were archived. The day leads the primary key of a
-- table WITHOUT ROWID, so a day is one contiguous piece of the tree: new jobs are added at its right
-- end, and the oldest day is cut off at its left, some hundred rows a write. A table per day could be
-- dropped by one statement, but not in bounded time: with auto_vacuum every page of it is visited
-- under the write lock, and each new table makes every process prepare all its statements again.
CREATE TABLE archive (
    day           INTEGER NOT NULL,  -- of archived_at, counted from 1970, UTC
    seq           INTEGER NOT NULL,
    id            TEXT NOT NULL,
    queue         TEXT NOT NULL,
    task          TEXT NOT NULL,
    status        INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER NOT NULL,
    archived_at   INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    error_type    TEXT,
    error_message TEXT,
    reason        TEXT,
    result        TEXT,  -- its summary
    metadata      TEXT,
    parent_id     TEXT,
    PRIMARY KEY (day, seq)
) WITHOUT ROWID;
-- "What became of job X" must not read ninety days.
CREATE INDEX archive_by_id ON archive (id);

-- Idempotency keys stand for 24 hours, also if their job is pruned before.
CREATE TABLE pruned_key (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL,
    status     INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    key        TEXT NOT NULL,
    expires_at INTEGER NOT NULL
);

-- The jobs whose results have a time to live, so that the others need not be looked at.
CREATE INDEX job_by_result_ttl ON job (seq) WHERE result_ttl_seconds IS NOT NULL;
