-- A job's request is written once, to `job`; where it stands is told by the one
-- narrow table that holds a row for it: ready, waiting, running or finished. Moving a job is deleting
-- a small row and inserting another, and what has ended costs nothing to what has not.
--
-- Times are microseconds since 1970, UTC. Statuses and events are the numbers in codes.py.
-- `version` is the latest lease version granted, `events` the number of history events so far.

-- The one row that every write reads and raises: the store's clock, which never steps back; a floor
-- under every lease version to come; and the next job number, never used twice.
CREATE TABLE store_state (
    one                 INTEGER PRIMARY KEY CHECK (one = 1),
    clock               INTEGER NOT NULL,
    version_floor       INTEGER NOT NULL,
    next_seq            INTEGER NOT NULL,
    -- Raised with every change of a queue's rules or state, and of a setting, so that every process
    -- knows for nothing whether what it remembers of them is still true.
    queue_generation    INTEGER NOT NULL DEFAULT 0,
    -- The minute of the latest writes: what the counters grew by since the last look happened in it.
    open_minute         INTEGER NOT NULL DEFAULT 0,
    settings_generation INTEGER NOT NULL DEFAULT 0,
    -- The store's clock against the machine's: core/rules/clock.py says what these mean. They change when
    -- the clocks of the machine disagree, so most writes only read them.
    boot_id             TEXT NOT NULL DEFAULT '',
    basis_clock         INTEGER NOT NULL DEFAULT 0,
    basis_awake         INTEGER NOT NULL DEFAULT 0,
    basis_boot          INTEGER NOT NULL DEFAULT 0,
    doubt_since         INTEGER,
    doubt_by            INTEGER NOT NULL DEFAULT 0,
    clock_repairs       INTEGER NOT NULL DEFAULT 0
);
INSERT INTO store_state (one, clock, version_floor, next_seq) VALUES (1, 0, 0, 1);

-- Facts about the file: who wrote it last, on which machine, how durably.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One lane per queue and task: jobs of one lane never change their order among themselves, so the
-- best job of a queue is the best of its lanes' heads. It also keeps the counters, so that
-- statistics never scan jobs.
CREATE TABLE lane (
    id                       INTEGER PRIMARY KEY,
    queue                    TEXT NOT NULL,
    task                     TEXT NOT NULL,
    scheduled                INTEGER NOT NULL DEFAULT 0,
    blocked                  INTEGER NOT NULL DEFAULT 0,
    pending                  INTEGER NOT NULL DEFAULT 0,
    running                  INTEGER NOT NULL DEFAULT 0,
    failed                   INTEGER NOT NULL DEFAULT 0,
    completed                INTEGER NOT NULL DEFAULT 0,
    dead                     INTEGER NOT NULL DEFAULT 0,
    cancelled                INTEGER NOT NULL DEFAULT 0,
    total_submitted          INTEGER NOT NULL DEFAULT 0,
    total_leased             INTEGER NOT NULL DEFAULT 0,
    total_completed          INTEGER NOT NULL DEFAULT 0,
    total_failed             INTEGER NOT NULL DEFAULT 0,
    total_retried            INTEGER NOT NULL DEFAULT 0,
    total_dead               INTEGER NOT NULL DEFAULT 0,
    total_cancelled          INTEGER NOT NULL DEFAULT 0,
    total_lost               INTEGER NOT NULL DEFAULT 0,
    total_recovered          INTEGER NOT NULL DEFAULT 0,
    total_renewed            INTEGER NOT NULL DEFAULT 0,
    total_rejected           INTEGER NOT NULL DEFAULT 0,
    total_rate_limited       INTEGER NOT NULL DEFAULT 0,
    total_cleaned            INTEGER NOT NULL DEFAULT 0,
    -- Bands of priority: below 50, below 75, below 100, and 100.
    total_submitted_low      INTEGER NOT NULL DEFAULT 0,
    total_submitted_medium   INTEGER NOT NULL DEFAULT 0,
    total_submitted_high     INTEGER NOT NULL DEFAULT 0,
    total_submitted_critical INTEGER NOT NULL DEFAULT 0,
    -- The circuit breaker: failures in a row, until when the lane is held back, and for how long
    -- again when a probe is let through.
    failures_in_row          INTEGER NOT NULL DEFAULT 0,
    held_until               INTEGER,
    hold_micros              INTEGER,
    -- Pending jobs by bands of priority.
    pending_low              INTEGER NOT NULL DEFAULT 0,
    pending_medium           INTEGER NOT NULL DEFAULT 0,
    pending_high             INTEGER NOT NULL DEFAULT 0,
    pending_critical         INTEGER NOT NULL DEFAULT 0,
    -- When its first job came.
    made_at                  INTEGER NOT NULL DEFAULT 0,
    -- How many jobs had been submitted when its queue was deleted; NULL if it never was.
    deleted_after            INTEGER,
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
    payload               BLOB NOT NULL,
    limit_key             TEXT
);
CREATE INDEX job_by_parent ON job (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX job_with_parent ON job (seq) WHERE parent_id IS NOT NULL;
CREATE INDEX job_by_start ON job (start_by) WHERE start_by IS NOT NULL;
-- The jobs whose results have a time to live, so that the others need not be looked at.
CREATE INDEX job_by_result_ttl ON job (seq) WHERE result_ttl_seconds IS NOT NULL;

-- Pending jobs, in the order they are served. `core.model.priority` says what a tier and a turn are; within
-- one lane and tier, the order never changes.
CREATE TABLE ready (
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
CREATE INDEX ready_by_parent ON ready (parent_id, lane, tier, turn, seq)
    WHERE parent_id IS NOT NULL;
-- The pending jobs whose turn is not the time since when they are available, by that time: those near
-- their deadline, and those of a queue in strict order that were delayed or retried. Of the others, the
-- first of each tier is the one that waits longest, so that the many cost nothing here.
CREATE INDEX ready_by_age ON ready (lane, available_at)
    WHERE available_at <> turn OR tier >= 1099511627776;

-- Where the few pending jobs stand that do not stand at their default place: those with a deadline,
-- those that were delayed, retried, or raised by others, and those counted for a limited key. The
-- default place follows from the job's own row, so that the many cost nothing here.
CREATE TABLE place (
    seq        INTEGER PRIMARY KEY,
    tier       INTEGER NOT NULL,
    turn       INTEGER NOT NULL,
    crosses_at INTEGER,  -- when it belongs into another tier
    lane       INTEGER,  -- the lane number it stands under while it is parked
    key_lane   INTEGER   -- what it is counted for
);
CREATE INDEX place_by_crossing ON place (crosses_at) WHERE crosses_at IS NOT NULL;
-- Those of a key that leases see, in their order.
CREATE INDEX place_shown ON place (key_lane, tier, turn, seq)
    WHERE key_lane IS NOT NULL AND lane IS NULL;

-- Lanes whose pending jobs are to be placed anew, because what counts in their queue has changed; and
-- how far that has got.
CREATE TABLE rescoring (
    lane INTEGER PRIMARY KEY,
    tier INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    seq  INTEGER NOT NULL
);

-- Limits per key: of one key, lane and tier, the best pending jobs stand in `ready` as ever, as many
-- as the key has free slots. The others are parked: in `ready` too, in the same order, but under the
-- lane number -key_lane.id, where no lease looks. One row per key and lane that has jobs pending or
-- running, in queues with limits per key only.
CREATE TABLE key_lane (
    id      INTEGER PRIMARY KEY,
    queue   TEXT NOT NULL,
    key     TEXT NOT NULL,
    lane    INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    UNIQUE (lane, key)
);
CREATE INDEX key_lane_by_key ON key_lane (queue, key);

-- Keys that have used up their starts and have jobs parked: when the next of them may start.
CREATE TABLE resting (
    queue TEXT NOT NULL,
    key   TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX resting_by_time ON resting (queue, until);

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
    cancel_reason TEXT,
    moved_by      INTEGER NOT NULL DEFAULT 0, -- how far the clock moved on without its holder
    lease_micros  INTEGER NOT NULL,           -- how long it was to be when it was granted
    life          INTEGER NOT NULL            -- of its worker, when it was granted; 0 for none
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
    lease_micros  INTEGER NOT NULL,  -- how long its lease was to be when it was granted
    PRIMARY KEY (seq, version)
) WITHOUT ROWID;
-- To find the jobs that ever failed; attempts that succeed pay nothing for it.
CREATE INDEX attempt_in_trouble ON attempt (seq) WHERE error_type IS NOT NULL;

-- Jobs of which an attempt failed or was lost: how many, the first and the last. It counts on when
-- attempt records have reached their bound; jobs that never fail have no row.
CREATE TABLE failed_job (
    seq      INTEGER PRIMARY KEY,
    count    INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL
);

-- Every other history event. (The first one, created, is told by the job's own row.) Words that are
-- the same for every job are made when somebody reads; the message of a lease whose attempt record
-- had to go is when it was to end.
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
    host         TEXT,
    pid          INTEGER,
    queues       TEXT NOT NULL,
    tasks        TEXT NOT NULL,
    slots        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    is_consumer  INTEGER NOT NULL, -- entered by its leases, not by itself
    life         INTEGER NOT NULL, -- the number of the lock that proves it alive; 0 for none, less for a remote one
    app_version  TEXT
) WITHOUT ROWID;

-- No number is used twice, even when every record has gone to the archive.
CREATE TABLE audit (
    n      INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    count  INTEGER NOT NULL,
    detail TEXT NOT NULL
);
-- Audit records that clean-ups have put away: all of them have lower numbers than those above.
CREATE TABLE audit_archive (
    n      INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    count  INTEGER NOT NULL,
    detail TEXT NOT NULL
);

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

-- How far the dependents of a job were looked through because it was to be deleted: all of them up to
-- this number have ended. A dependent that is replayed takes it back.
CREATE TABLE ended_dependents (
    seq   INTEGER PRIMARY KEY,
    up_to INTEGER NOT NULL
);

-- Who still waits for whom. Deleting a row is the fence: a dependency's end counts once. Few rows,
-- since what has ended blocks nobody: a store without waiting dependents has none.
CREATE TABLE blocker (
    needs INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (needs, seq)
) WITHOUT ROWID;
CREATE INDEX blocker_by_seq ON blocker (seq);

-- Jobs that have ended and still block some: there were too many for one write, and the next goes on.
-- A purged one is deleted when all of them were told of its end.
CREATE TABLE resolving (
    seq    INTEGER PRIMARY KEY,
    purged INTEGER NOT NULL DEFAULT 0
);

-- Jobs that others wait for, with the priority they have from those, where it is above their own.
CREATE TABLE raised (
    seq  INTEGER PRIMARY KEY,
    base INTEGER NOT NULL
);

-- Where changes of those priorities have not reached everybody yet: there were too many jobs for one
-- write, and the next goes on.
CREATE TABLE inheriting (
    seq         INTEGER PRIMARY KEY,
    compared_to INTEGER,          -- its priority has changed; what it waits for, up to this number, knows
    is_suspect  INTEGER NOT NULL  -- somebody may not raise it any more
);

-- Schedules: jobs that are submitted again and again. Times are microseconds since 1970, UTC.
CREATE TABLE schedule (
    name        TEXT PRIMARY KEY,
    draft       TEXT NOT NULL,     -- what was asked for: timing, job and policies, as JSON
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    next_at     INTEGER,           -- the next tick that was not fired yet
    due_at      INTEGER,           -- when to look; later than next_at if the job was refused
    paused      INTEGER NOT NULL,
    last_at     INTEGER,
    last_job_id TEXT,
    fired       INTEGER NOT NULL,
    missed      INTEGER NOT NULL,  -- ticks that made no job
    missed_at   INTEGER,           -- the latest of them
    error       TEXT
);
-- Every exchange asks for the first due schedule: one seek, and none where there are no schedules.
CREATE INDEX schedule_by_due ON schedule (due_at, name) WHERE due_at IS NOT NULL;

-- Queues with rules of their own. A queue without a row here has none: it takes and runs everything.
CREATE TABLE queue (
    name         TEXT PRIMARY KEY,
    state        TEXT NOT NULL,
    config       TEXT NOT NULL,
    -- How many of its jobs had ended at two moments, to measure how fast it drains.
    older_at     INTEGER,
    older_ended  INTEGER,
    newer_at     INTEGER,
    newer_ended  INTEGER,
    created_at   INTEGER,  -- NULL if nobody created it: it came with its first job
    created_by   TEXT,
    changed_at   INTEGER,
    changed_by   TEXT
) WITHOUT ROWID;

-- Token buckets that are not full: when each will be, in nanoseconds since 1970.
CREATE TABLE bucket (
    queue   TEXT NOT NULL,
    name    TEXT NOT NULL,
    full_at INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE INDEX bucket_by_time ON bucket (full_at);

-- Settings of the store.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL  -- JSON
) WITHOUT ROWID;

-- Small texts that people leave on the store: deploy marks, named views, workers that are to stop.
CREATE TABLE pin (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    document TEXT NOT NULL,  -- JSON
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Who may do what over the network. Of a token's secret only the hash is kept.
CREATE TABLE token (
    name     TEXT PRIMARY KEY,
    digest   TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL  -- JSON
) WITHOUT ROWID;

-- Orders to many jobs, each with its plan, its progress and its report, in the order of their beginnings.
CREATE TABLE operation (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL  -- JSON
);

-- What the jobs were before, one row for each write of an operation: what an undo goes back to.
CREATE TABLE operation_part (
    operation INTEGER NOT NULL,
    part      INTEGER NOT NULL,
    document  TEXT NOT NULL,  -- JSON
    PRIMARY KEY (operation, part)
) WITHOUT ROWID;

-- Retention: clean-ups and their records, the archive, and what is left of pruned jobs.

-- One row per clean-up. While it goes on it is also its own memory: which phase it is in, and where
-- that goes on. Whoever prunes next learns here whether it is its turn.
CREATE TABLE cleanup (
    run               INTEGER PRIMARY KEY,
    mode              TEXT NOT NULL,
    actor             TEXT NOT NULL,
    started_at        INTEGER NOT NULL,
    active_at         INTEGER NOT NULL,
    ended_at          INTEGER,
    completed         INTEGER NOT NULL,
    cancelled         INTEGER NOT NULL,
    dead              INTEGER NOT NULL,
    archived          INTEGER NOT NULL,
    results_dropped   INTEGER NOT NULL,
    histories_dropped INTEGER NOT NULL,
    archive_dropped   INTEGER NOT NULL,
    audit_archived    INTEGER NOT NULL,
    audit_dropped     INTEGER NOT NULL,
    writes            INTEGER NOT NULL,
    lock_micros       INTEGER NOT NULL,
    phase             INTEGER NOT NULL,  -- the numbers in core/rules/cleanup_store.py
    -- Up to which job number it has looked; and at which moment jobs had ended, where it goes by that.
    ended_up_to       INTEGER NOT NULL,
    seq_up_to         INTEGER NOT NULL,
    bound             INTEGER            -- the job number at which the phase ends, once that is known
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
    failure_count   INTEGER NOT NULL,
    first_failed_at INTEGER,
    last_failed_at  INTEGER,
    run_micros    INTEGER GENERATED ALWAYS AS (max(0, finished_at - started_at)) VIRTUAL,
    PRIMARY KEY (day, seq)
) WITHOUT ROWID;
-- "What became of job X" must not read ninety days.
CREATE INDEX archive_by_id ON archive (id);
-- The orders in which it is searched; each index goes on with the primary key.
CREATE INDEX archive_by_task ON archive (task);
CREATE INDEX archive_by_run ON archive (run_micros) WHERE run_micros IS NOT NULL;
CREATE INDEX archive_by_task_and_run ON archive (task, run_micros) WHERE run_micros IS NOT NULL;

-- Idempotency keys stand for 24 hours, also if their job is pruned before.
CREATE TABLE pruned_key (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL,
    status     INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    key        TEXT NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX pruned_key_by_expiry ON pruned_key (expires_at);

-- Metrics. The lanes' counters grow for ever; the first write of a new minute looks at them before it
-- changes anything, and keeps what they grew by since the last look. So a series costs the jobs
-- nothing. Minutes and days are counted from 1970, UTC.

-- How long jobs waited and ran since the last look: the measures of core/model/span.py, in the buckets
-- of core/model/histogram.py. A handful of rows per lane, emptied every minute.
CREATE TABLE measured (
    lane    INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    jobs    INTEGER NOT NULL,
    micros  INTEGER NOT NULL,  -- what they took together
    PRIMARY KEY (lane, measure, bucket)
) WITHOUT ROWID;

-- What happened, by resolution (the numbers in core/rules/sampling.py): the counters as they were at the last
-- look, each minute in which anything happened, and the sums of the minutes of each day. `measures` is
-- MessagePack: by measure, what its durations add up to, and how many fell into each bucket.
CREATE TABLE span (
    resolution         INTEGER NOT NULL,
    queue              TEXT NOT NULL,
    at                 INTEGER NOT NULL,
    submitted          INTEGER NOT NULL,
    leased             INTEGER NOT NULL,
    completed          INTEGER NOT NULL,
    failed             INTEGER NOT NULL,
    retried            INTEGER NOT NULL,
    dead               INTEGER NOT NULL,
    cancelled          INTEGER NOT NULL,
    lost               INTEGER NOT NULL,
    recovered          INTEGER NOT NULL,
    renewed            INTEGER NOT NULL,
    rejected           INTEGER NOT NULL,
    rate_limited       INTEGER NOT NULL,
    cleaned            INTEGER NOT NULL,
    submitted_low      INTEGER NOT NULL,
    submitted_medium   INTEGER NOT NULL,
    submitted_high     INTEGER NOT NULL,
    submitted_critical INTEGER NOT NULL,
    pending_before     INTEGER NOT NULL,
    pending            INTEGER NOT NULL,
    deepest            INTEGER NOT NULL,
    oldest_micros      INTEGER NOT NULL,
    measures           BLOB NOT NULL,
    PRIMARY KEY (resolution, queue, at)
) WITHOUT ROWID;
-- To read the latest of all queues, and to forget the oldest of whichever.
CREATE INDEX span_by_time ON span (resolution, at);

-- Attempts that failed, by the fingerprint of their error; at most as many as core/rules/failures.py says.
CREATE TABLE failure (
    fingerprint TEXT PRIMARY KEY,
    queue       TEXT NOT NULL,
    task        TEXT NOT NULL,
    error_type  TEXT NOT NULL,
    message     TEXT NOT NULL,  -- without numbers, ids and addresses
    frame       TEXT NOT NULL,
    count       INTEGER NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    jobs        TEXT NOT NULL,  -- some of their ids, the latest first, as JSON
    hours       TEXT NOT NULL   -- how many in the last hour, in the one before, and so on, as JSON
) WITHOUT ROWID;

-- The same attempts by the type of their error alone; its counts only grow.
CREATE TABLE error_total (
    queue      TEXT NOT NULL,
    error_type TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (queue, error_type)
) WITHOUT ROWID;

-- What each worker ever did in a queue up to the open minute, also those that are gone; the latest so
-- many are kept. What they did in that minute is in `measured`, whose page every lease and settlement
-- writes anyway: under lane 0, by what was counted (0 leased, 1 completed, 2 failed, 3 lost) and id.
CREATE TABLE worker_total (
    id        INTEGER PRIMARY KEY,
    worker    TEXT NOT NULL,
    queue     TEXT NOT NULL,
    leased    INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    lost      INTEGER NOT NULL DEFAULT 0,
    first_at  INTEGER NOT NULL,  -- the beginning of that minute
    last_at   INTEGER NOT NULL,
    UNIQUE (worker, queue)
);

-- The change feed, written by triggers that are there only while somebody follows it (feed.py).
CREATE TABLE change (
    n      INTEGER PRIMARY KEY AUTOINCREMENT,  -- its numbers are never used again
    kind   INTEGER NOT NULL,
    name   TEXT,     -- NULL for a job that is still there
    seq    INTEGER,
    status INTEGER,
    events INTEGER
);

-- Replies to requests that may be sent twice, for some minutes (replies.py).
CREATE TABLE reply (
    n    INTEGER PRIMARY KEY,
    id   TEXT NOT NULL UNIQUE,
    at   INTEGER NOT NULL,
    data BLOB NOT NULL
);
