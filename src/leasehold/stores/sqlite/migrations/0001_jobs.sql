-- The first schema. A job's request is written once, to `job`; where it stands is told by the one
-- narrow table that holds a row for it: ready, waiting, running or finished. Moving a job is deleting
-- a small row and inserting another, and what has ended costs nothing to what has not.
--
-- Times are microseconds since 1970, UTC. Statuses and events are the numbers in codes.py.
-- `version` is the latest lease version granted, `events` the number of history events so far.

-- The one row that every write reads and raises: the store's clock, which never steps back; a floor
-- under every lease version to come; and the next job number, never used twice.
CREATE TABLE store_state (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    clock         INTEGER NOT NULL,
    version_floor INTEGER NOT NULL,
    next_seq      INTEGER NOT NULL
);
INSERT INTO store_state VALUES (1, 0, 0, 1);

-- Facts about the file: who wrote it last, on which machine, how durably.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One lane per queue and task: jobs of one lane never change their order among themselves, so the
-- best job of a queue is the best of its lanes' heads. It also keeps the counters, so that
-- statistics never scan jobs.
CREATE TABLE lane (
    id              INTEGER PRIMARY KEY,
    queue           TEXT NOT NULL,
    task            TEXT NOT NULL,
    scheduled       INTEGER NOT NULL DEFAULT 0,
    blocked         INTEGER NOT NULL DEFAULT 0,
    pending         INTEGER NOT NULL DEFAULT 0,
    running         INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    completed       INTEGER NOT NULL DEFAULT 0,
    dead            INTEGER NOT NULL DEFAULT 0,
    cancelled       INTEGER NOT NULL DEFAULT 0,
    total_submitted INTEGER NOT NULL DEFAULT 0,
    total_completed INTEGER NOT NULL DEFAULT 0,
    total_failed    INTEGER NOT NULL DEFAULT 0,
    total_retried   INTEGER NOT NULL DEFAULT 0,
    total_dead      INTEGER NOT NULL DEFAULT 0,
    total_cancelled INTEGER NOT NULL DEFAULT 0,
    total_recovered INTEGER NOT NULL DEFAULT 0,
    total_rejected  INTEGER NOT NULL DEFAULT 0,
    total_cleaned   INTEGER NOT NULL DEFAULT 0,
    -- The circuit breaker: failures in a row, until when the lane is held back, and for how long
    -- again when a probe is let through.
    failures_in_row INTEGER NOT NULL DEFAULT 0,
    held_until      INTEGER,
    hold_micros     INTEGER,
    UNIQUE (queue, task)
);

CREATE TABLE job (
    seq                   INTEGER PRIMARY KEY,
    id                    TEXT NOT NULL UNIQUE,
    lane                  INTEGER NOT NULL REFERENCES lane,
    priority              INTEGER NOT NULL,
    born                  INTEGER NOT NULL,  -- the status it was created with
    created_at            INTEGER NOT NULL,
    max_retries           INTEGER NOT NULL,
    allowance             INTEGER NOT NULL,
    timeout_seconds       REAL,
    lease_seconds         REAL,
    deadline              INTEGER,
    start_by              INTEGER,
    result_ttl_seconds    REAL,
    retry                 TEXT,
    metadata              TEXT,
    idempotency_key       TEXT,
    parent_id             TEXT,
    codec                 TEXT,  -- NULL for json
    payload               BLOB NOT NULL
);
CREATE INDEX job_by_parent ON job (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX job_by_start ON job (start_by) WHERE start_by IS NOT NULL;

-- Pending jobs, in the order they are served; rank is 100 - priority.
CREATE TABLE ready (
    lane         INTEGER NOT NULL,
    rank         INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    parent_id    TEXT,
    PRIMARY KEY (lane, rank, seq)
) WITHOUT ROWID;
CREATE INDEX ready_by_parent ON ready (parent_id, rank, seq) WHERE parent_id IS NOT NULL;

-- Scheduled, failed and blocked jobs; due is NULL for the blocked.
CREATE TABLE waiting (
    seq      INTEGER PRIMARY KEY,
    status   INTEGER NOT NULL,
    due      INTEGER,
    since    INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    reason   TEXT
);
CREATE INDEX waiting_by_due ON waiting (due) WHERE due IS NOT NULL;

-- Leases. Few rows, so that the sweep may read them all.
CREATE TABLE running (
    seq           INTEGER PRIMARY KEY,
    version       INTEGER NOT NULL,
    worker        TEXT NOT NULL,
    acquired_at   INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    events        INTEGER NOT NULL,
    leased_event  INTEGER NOT NULL,
    available_at  INTEGER NOT NULL,
    cancel_reason TEXT
);

-- Completed, dead and cancelled jobs.
CREATE TABLE finished (
    seq          INTEGER PRIMARY KEY,
    status       INTEGER NOT NULL,
    finished_at  INTEGER NOT NULL,
    started_at   INTEGER,
    available_at INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    result       BLOB,
    result_codec TEXT,  -- NULL for json
    reason       TEXT
);
-- Status 5 is completed: the many that succeed pay nothing for finding the few that did not.
CREATE INDEX finished_in_trouble ON finished (status, finished_at) WHERE status <> 5;

-- One row per lease that ended. It stands for two history events: leased, and how that ended.
CREATE TABLE attempt (
    seq           INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    worker        TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,
    after         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,  -- spent when it had ended: fewer than number if handed back
    leased_event  INTEGER NOT NULL,
    ended_event   INTEGER NOT NULL,
    message       TEXT,
    error_type    TEXT,
    error_message TEXT,
    traceback     TEXT,
    note          BLOB,
    expires_at    INTEGER,
    heartbeat_at  INTEGER,
    PRIMARY KEY (seq, version)
) WITHOUT ROWID;

-- Every other history event. (The first one, created, is told by the job's own row.)
CREATE TABLE event (
    seq      INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    event    INTEGER NOT NULL,
    before   INTEGER NOT NULL,
    after    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    worker   TEXT,
    version  INTEGER NOT NULL,
    message  TEXT,
    PRIMARY KEY (seq, n)
) WITHOUT ROWID;

CREATE TABLE idempotency (
    queue      TEXT NOT NULL,
    key        TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    digest     BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;

CREATE TABLE progress (
    seq      INTEGER PRIMARY KEY,
    document TEXT NOT NULL
);

CREATE TABLE log (
    seq  INTEGER NOT NULL,
    n    INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (seq, n)
) WITHOUT ROWID;

CREATE TABLE worker (
    id           TEXT PRIMARY KEY,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    queues       TEXT NOT NULL,
    slots        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE audit (
    n      INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    count  INTEGER NOT NULL,
    detail TEXT NOT NULL
);
