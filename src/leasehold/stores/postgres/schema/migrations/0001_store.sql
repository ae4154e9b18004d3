-- The tables of a store, in the schema that its connections have as their search_path.
--
-- A job's request is written once, to `job`; where it stands is told by the one narrow table that holds
-- a row for it: ready, waiting, running or finished. Moving a job is deleting a small row and inserting
-- another, so the hot tables stay small, and what has ended costs nothing to what has not.
--
-- Times are microseconds since 1970, UTC. Statuses and events are the numbers in codes.py.
-- `version` is the latest lease version granted, `events` the number of history events so far.
--
-- The small tables that live by insert and delete are vacuumed early: their dead rows are what a lease
-- would otherwise read past.

-- One row. It is read by every write and changed by few: when rules or settings change, when a minute
-- begins, when the server was started.
CREATE TABLE store_state (
    one                 bigint PRIMARY KEY CHECK (one = 1),
    store_id            text COLLATE "C" NOT NULL,
    -- A floor under the store's clock: what it showed when the store was last written to alone.
    clock               bigint NOT NULL,
    -- Where its time went on when the server's clock was last found set back: what the store showed
    -- then, and what the server's clock did. Since then it has gone on at half that clock's pace.
    pace_clock          bigint NOT NULL DEFAULT 0,
    pace_server         bigint NOT NULL DEFAULT 0,
    -- A lease version is this and a number of the sequence. It is raised, by the clock, by the first
    -- write after each start of the server: that may be another one, or restored, and have forgotten
    -- the last versions it granted.
    version_base        bigint NOT NULL,
    server_started_at   timestamptz NOT NULL,
    -- The number that the server has given this table. A restored dump gets another one: it has
    -- forgotten the versions granted since, and its leases may have been overtaken.
    table_number        bigint NOT NULL,
    -- Raised with every change of a queue's rules or state, and of a setting, so that every process
    -- knows for nothing whether what it remembers of them is still true.
    queue_generation    bigint NOT NULL DEFAULT 0,
    settings_generation bigint NOT NULL DEFAULT 0,
    -- Raised by every write that has the store to itself: what only such writes change is still as it
    -- was while this is the same.
    alone_generation    bigint NOT NULL DEFAULT 0,
    -- The minute of the latest writes: what the counters grew by since the last look happened in it.
    open_minute         bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE SEQUENCE job_seq AS bigint CACHE 1;
CREATE SEQUENCE lease_version AS bigint CACHE 1;
CREATE SEQUENCE life_number AS integer CYCLE;

-- Small facts about the store, by name.
CREATE TABLE meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- One lane per queue and task: jobs of one lane never change their order among themselves, so the
-- best job of a queue is the best of its lanes' heads. It also keeps the counters, so that
-- statistics never scan jobs; what was counted beside others is in `lane_delta` until it is folded in.
CREATE TABLE lane (
    id                       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue                    text COLLATE "C" NOT NULL,
    task                     text COLLATE "C" NOT NULL,
    scheduled                bigint NOT NULL DEFAULT 0,
    blocked                  bigint NOT NULL DEFAULT 0,
    pending                  bigint NOT NULL DEFAULT 0,
    running                  bigint NOT NULL DEFAULT 0,
    failed                   bigint NOT NULL DEFAULT 0,
    completed                bigint NOT NULL DEFAULT 0,
    dead                     bigint NOT NULL DEFAULT 0,
    cancelled                bigint NOT NULL DEFAULT 0,
    total_submitted          bigint NOT NULL DEFAULT 0,
    total_leased             bigint NOT NULL DEFAULT 0,
    total_completed          bigint NOT NULL DEFAULT 0,
    total_failed             bigint NOT NULL DEFAULT 0,
    total_retried            bigint NOT NULL DEFAULT 0,
    total_dead               bigint NOT NULL DEFAULT 0,
    total_cancelled          bigint NOT NULL DEFAULT 0,
    total_lost               bigint NOT NULL DEFAULT 0,
    total_recovered          bigint NOT NULL DEFAULT 0,
    total_renewed            bigint NOT NULL DEFAULT 0,
    total_rejected           bigint NOT NULL DEFAULT 0,
    total_rate_limited       bigint NOT NULL DEFAULT 0,
    total_cleaned            bigint NOT NULL DEFAULT 0,
    total_submitted_low      bigint NOT NULL DEFAULT 0,
    total_submitted_medium   bigint NOT NULL DEFAULT 0,
    total_submitted_high     bigint NOT NULL DEFAULT 0,
    total_submitted_critical bigint NOT NULL DEFAULT 0,
    pending_low              bigint NOT NULL DEFAULT 0,
    pending_medium           bigint NOT NULL DEFAULT 0,
    pending_high             bigint NOT NULL DEFAULT 0,
    pending_critical         bigint NOT NULL DEFAULT 0,
    -- The circuit breaker: failures in a row, until when the lane is held back, and for how long
    -- again when a probe is let through.
    failures_in_row          bigint NOT NULL DEFAULT 0,
    held_until               bigint,
    hold_micros              bigint,
    made_at                  bigint NOT NULL,  -- when its first job came
    deleted_after            bigint,           -- jobs submitted when its queue was deleted, if it was
    UNIQUE (queue, task)
) WITH (fillfactor = 50);

-- The few lanes that are held back: every write asks for the first.
CREATE INDEX lane_by_hold ON lane (held_until) WHERE held_until IS NOT NULL;
-- And those whose breaker has counted failures, likewise.
CREATE INDEX lane_failing ON lane (id) WHERE failures_in_row > 0;

-- The lanes whose first jobs are found through an accelerator (`keeping/index_keeper.py`): every write
-- that lets a job enter one of them tells it so.
CREATE TABLE indexed_lane (
    lane bigint PRIMARY KEY
);

-- What writes that go side by side have counted: a row each, so that none waits for another's counter.
-- A write that has the store to itself folds them into `lane` first. NULL is nothing.
CREATE TABLE lane_delta (
    lane                     bigint NOT NULL,
    scheduled                bigint,
    blocked                  bigint,
    pending                  bigint,
    running                  bigint,
    failed                   bigint,
    completed                bigint,
    dead                     bigint,
    cancelled                bigint,
    total_submitted          bigint,
    total_leased             bigint,
    total_completed          bigint,
    total_failed             bigint,
    total_retried            bigint,
    total_dead               bigint,
    total_cancelled          bigint,
    total_lost               bigint,
    total_recovered          bigint,
    total_renewed            bigint,
    total_rejected           bigint,
    total_rate_limited       bigint,
    total_cleaned            bigint,
    total_submitted_low      bigint,
    total_submitted_medium   bigint,
    total_submitted_high     bigint,
    total_submitted_critical bigint,
    pending_low              bigint,
    pending_medium           bigint,
    pending_high             bigint,
    pending_critical         bigint
);

-- The counters as they are now, for who only reads.
CREATE VIEW lane_now AS
SELECT lane.id, lane.queue, lane.task, lane.failures_in_row, lane.held_until, lane.hold_micros,
       lane.made_at, lane.deleted_after,
       lane.scheduled + coalesce(delta.scheduled, 0) AS scheduled,
       lane.blocked + coalesce(delta.blocked, 0) AS blocked,
       lane.pending + coalesce(delta.pending, 0) AS pending,
       lane.running + coalesce(delta.running, 0) AS running,
       lane.failed + coalesce(delta.failed, 0) AS failed,
       lane.completed + coalesce(delta.completed, 0) AS completed,
       lane.dead + coalesce(delta.dead, 0) AS dead,
       lane.cancelled + coalesce(delta.cancelled, 0) AS cancelled,
       lane.total_submitted + coalesce(delta.total_submitted, 0) AS total_submitted,
       lane.total_leased + coalesce(delta.total_leased, 0) AS total_leased,
       lane.total_completed + coalesce(delta.total_completed, 0) AS total_completed,
       lane.total_failed + coalesce(delta.total_failed, 0) AS total_failed,
       lane.total_retried + coalesce(delta.total_retried, 0) AS total_retried,
       lane.total_dead + coalesce(delta.total_dead, 0) AS total_dead,
       lane.total_cancelled + coalesce(delta.total_cancelled, 0) AS total_cancelled,
       lane.total_lost + coalesce(delta.total_lost, 0) AS total_lost,
       lane.total_recovered + coalesce(delta.total_recovered, 0) AS total_recovered,
       lane.total_renewed + coalesce(delta.total_renewed, 0) AS total_renewed,
       lane.total_rejected + coalesce(delta.total_rejected, 0) AS total_rejected,
       lane.total_rate_limited + coalesce(delta.total_rate_limited, 0) AS total_rate_limited,
       lane.total_cleaned + coalesce(delta.total_cleaned, 0) AS total_cleaned,
       lane.total_submitted_low + coalesce(delta.total_submitted_low, 0) AS total_submitted_low,
       lane.total_submitted_medium + coalesce(delta.total_submitted_medium, 0) AS total_submitted_medium,
       lane.total_submitted_high + coalesce(delta.total_submitted_high, 0) AS total_submitted_high,
       lane.total_submitted_critical + coalesce(delta.total_submitted_critical, 0) AS total_submitted_critical,
       lane.pending_low + coalesce(delta.pending_low, 0) AS pending_low,
       lane.pending_medium + coalesce(delta.pending_medium, 0) AS pending_medium,
       lane.pending_high + coalesce(delta.pending_high, 0) AS pending_high,
       lane.pending_critical + coalesce(delta.pending_critical, 0) AS pending_critical
FROM lane LEFT JOIN (
    SELECT lane,
           sum(scheduled)::bigint AS scheduled,
           sum(blocked)::bigint AS blocked,
           sum(pending)::bigint AS pending,
           sum(running)::bigint AS running,
           sum(failed)::bigint AS failed,
           sum(completed)::bigint AS completed,
           sum(dead)::bigint AS dead,
           sum(cancelled)::bigint AS cancelled,
           sum(total_submitted)::bigint AS total_submitted,
           sum(total_leased)::bigint AS total_leased,
           sum(total_completed)::bigint AS total_completed,
           sum(total_failed)::bigint AS total_failed,
           sum(total_retried)::bigint AS total_retried,
           sum(total_dead)::bigint AS total_dead,
           sum(total_cancelled)::bigint AS total_cancelled,
           sum(total_lost)::bigint AS total_lost,
           sum(total_recovered)::bigint AS total_recovered,
           sum(total_renewed)::bigint AS total_renewed,
           sum(total_rejected)::bigint AS total_rejected,
           sum(total_rate_limited)::bigint AS total_rate_limited,
           sum(total_cleaned)::bigint AS total_cleaned,
           sum(total_submitted_low)::bigint AS total_submitted_low,
           sum(total_submitted_medium)::bigint AS total_submitted_medium,
           sum(total_submitted_high)::bigint AS total_submitted_high,
           sum(total_submitted_critical)::bigint AS total_submitted_critical,
           sum(pending_low)::bigint AS pending_low,
           sum(pending_medium)::bigint AS pending_medium,
           sum(pending_high)::bigint AS pending_high,
           sum(pending_critical)::bigint AS pending_critical
    FROM lane_delta GROUP BY lane
) AS delta ON delta.lane = lane.id;

CREATE TABLE job (
    seq                   bigint PRIMARY KEY,
    id                    text COLLATE "C" NOT NULL UNIQUE,
    lane                  bigint NOT NULL,
    priority              smallint NOT NULL,
    born                  smallint NOT NULL,  -- the status it was created with
    created_at            bigint NOT NULL,
    max_retries           bigint NOT NULL,
    allowance             bigint NOT NULL,
    timeout_seconds       double precision,
    lease_seconds         double precision,
    deadline              bigint,
    start_by              bigint,
    result_ttl_seconds    double precision,
    retry                 text COLLATE "C",
    metadata              text COLLATE "C",
    idempotency_key       text COLLATE "C",
    parent_id             text COLLATE "C",
    codec                 text COLLATE "C",  -- NULL for json
    payload               bytea NOT NULL,
    limit_key             text COLLATE "C"
);
CREATE INDEX job_by_parent ON job (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX job_with_parent ON job (seq) WHERE parent_id IS NOT NULL;
CREATE INDEX job_by_start ON job (start_by) WHERE start_by IS NOT NULL;
-- The jobs whose results have a time to live, so that the others need not be looked at.
CREATE INDEX job_by_result_ttl ON job (seq) WHERE result_ttl_seconds IS NOT NULL;

-- Pending jobs, in the order they are served. `core.model.priority` says what a tier and a turn are; within
-- one lane and tier, the order never changes.
CREATE TABLE ready (
    lane         bigint NOT NULL,
    tier         bigint NOT NULL,
    turn         bigint NOT NULL,
    seq          bigint NOT NULL,
    version      bigint NOT NULL,
    attempts     integer NOT NULL,
    events       integer NOT NULL,
    available_at bigint NOT NULL,
    parent_id    text COLLATE "C",
    PRIMARY KEY (lane, tier, turn, seq)
);
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
    seq        bigint PRIMARY KEY,
    tier       bigint NOT NULL,
    turn       bigint NOT NULL,
    crosses_at bigint,  -- when it belongs into another tier
    lane       bigint,  -- the lane number it stands under while it is parked
    key_lane   bigint   -- what it is counted for
);
CREATE INDEX place_by_crossing ON place (crosses_at) WHERE crosses_at IS NOT NULL;
-- Those of a key that leases see, in their order.
CREATE INDEX place_shown ON place (key_lane, tier, turn, seq)
    WHERE key_lane IS NOT NULL AND lane IS NULL;

-- Lanes whose pending jobs are to be placed anew, because what counts in their queue has changed; and
-- how far that has got.
CREATE TABLE rescoring (
    lane bigint PRIMARY KEY,
    tier bigint NOT NULL,
    turn bigint NOT NULL,
    seq  bigint NOT NULL
);

-- Limits per key: of one key, lane and tier, the best pending jobs stand in `ready` as ever, as many
-- as the key has free slots. The others are parked: in `ready` too, in the same order, but under the
-- lane number -key_lane.id, where no lease looks. One row per key and lane that has jobs pending or
-- running, in queues with limits per key only.
CREATE TABLE key_lane (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    lane    bigint NOT NULL,
    running bigint NOT NULL DEFAULT 0,
    UNIQUE (lane, key)
);
CREATE INDEX key_lane_by_key ON key_lane (queue, key);

-- Keys that have used up their starts and have jobs parked: when the next of them may start.
CREATE TABLE resting (
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE INDEX resting_by_time ON resting (queue, until);

-- Scheduled, failed and blocked jobs; due is NULL for the blocked.
CREATE TABLE waiting (
    seq      bigint PRIMARY KEY,
    status   smallint NOT NULL,
    due      bigint,
    since    bigint NOT NULL,
    version  bigint NOT NULL,
    attempts integer NOT NULL,
    events   integer NOT NULL,
    reason   text COLLATE "C"
);
CREATE INDEX waiting_by_due ON waiting (due) WHERE due IS NOT NULL;

-- Leases. Few rows, so that the sweep may read them all.
CREATE TABLE running (
    seq           bigint PRIMARY KEY,
    version       bigint NOT NULL,
    worker        text COLLATE "C" NOT NULL,
    acquired_at   bigint NOT NULL,
    expires_at    bigint NOT NULL,
    heartbeat_at  bigint NOT NULL,
    attempts      integer NOT NULL,
    events        integer NOT NULL,
    leased_event  integer NOT NULL,
    available_at  bigint NOT NULL,
    cancel_reason text COLLATE "C",
    lease_micros  bigint NOT NULL,  -- how long it was to be when it was granted
    life          integer NOT NULL  -- of its worker, when it was granted; 0 for none
);

-- Completed, dead and cancelled jobs.
CREATE TABLE finished (
    seq          bigint PRIMARY KEY,
    status       smallint NOT NULL,
    finished_at  bigint NOT NULL,
    started_at   bigint,
    available_at bigint NOT NULL,
    version      bigint NOT NULL,
    attempts     integer NOT NULL,
    events       integer NOT NULL,
    result       bytea,
    result_codec text COLLATE "C",  -- NULL for json
    reason       text COLLATE "C"
);
-- Numbers do not grow with time here, since writes go side by side: a clean-up goes by this index.
CREATE INDEX finished_by_end ON finished (status, finished_at, seq);

-- One row per lease that ended. It stands for two history events: leased, and how that ended.
CREATE TABLE attempt (
    seq           bigint NOT NULL,
    version       bigint NOT NULL,
    number        bigint NOT NULL,
    worker        text COLLATE "C" NOT NULL,
    started_at    bigint NOT NULL,
    ended_at      bigint NOT NULL,
    outcome       smallint NOT NULL,
    after         smallint NOT NULL,
    attempts      integer NOT NULL,  -- spent when it had ended: fewer than number if handed back
    leased_event  integer NOT NULL,
    ended_event   integer NOT NULL,
    message       text COLLATE "C",
    error_type    text COLLATE "C",
    error_message text COLLATE "C",
    traceback     text COLLATE "C",
    note          bytea,
    expires_at    bigint,
    heartbeat_at  bigint,
    lease_micros  bigint NOT NULL,  -- how long its lease was to be when it was granted
    PRIMARY KEY (seq, version)
);

-- Jobs of which an attempt failed or was lost: how many, the first and the last. It counts on when
-- attempt records have reached their bound; jobs that never fail have no row.
CREATE TABLE failed_job (
    seq      bigint PRIMARY KEY,
    count    bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at  bigint NOT NULL
);

-- Every other history event. (The first one, created, is told by the job's own row.) Words that are
-- the same for every job are made when somebody reads; the message of a lease whose attempt record
-- had to go is when it was to end.
CREATE TABLE event (
    seq      bigint NOT NULL,
    n        bigint NOT NULL,
    at       bigint NOT NULL,
    event    smallint NOT NULL,
    before   smallint NOT NULL,
    after    smallint NOT NULL,
    attempts integer NOT NULL,
    worker   text COLLATE "C",
    version  bigint NOT NULL,
    message  text COLLATE "C",
    PRIMARY KEY (seq, n)
);

CREATE TABLE idempotency (
    queue      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    digest     bytea NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (queue, key)
);

CREATE TABLE progress (
    seq      bigint PRIMARY KEY,
    document text COLLATE "C" NOT NULL
);

CREATE TABLE log (
    seq  bigint NOT NULL,
    n    bigint NOT NULL,
    at   bigint NOT NULL,
    line text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, n)
);

CREATE TABLE worker (
    id           text COLLATE "C" PRIMARY KEY,
    host         text COLLATE "C",
    pid          bigint,
    queues       text COLLATE "C" NOT NULL,
    tasks        text COLLATE "C" NOT NULL,
    slots        bigint NOT NULL,
    started_at   bigint NOT NULL,
    heartbeat_at bigint NOT NULL,
    life         integer NOT NULL, -- the number of the session lock that proves it alive; 0 for none, less for a remote one
    is_consumer  boolean NOT NULL, -- entered by its leases, not by itself
    app_version  text COLLATE "C",
    -- Since when its session has held that lock. If it is free in two looks and this has not changed,
    -- it was free all the time between them.
    held_since   bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
);

CREATE TABLE audit (
    n      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    detail text COLLATE "C" NOT NULL
);
-- Audit records that clean-ups have put away: all of them have lower numbers than those above.
CREATE TABLE audit_archive (
    n      bigint PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    detail text COLLATE "C" NOT NULL
);

-- Dependencies. `job` and its state tables know nothing of them, so that who uses none pays nothing;
-- a blocked job has a row in `waiting` with no due time, and one in `blocker` for each job it waits for.

-- One row per job that was submitted with dependencies.
CREATE TABLE dependent (
    seq      bigint PRIMARY KEY,
    policy   smallint NOT NULL,  -- what a dependency's bad end does to it; the numbers in codes.py
    due      bigint NOT NULL,  -- when it may run at the earliest, once nothing blocks it
    ended_by bigint            -- the dependency whose end has ended it
);

-- Who depends on whom, for good. `needs` is the dependency's number; it may be discarded by now,
-- which is why its id is kept too.
CREATE TABLE dependency (
    seq   bigint NOT NULL,
    n     bigint NOT NULL,
    needs bigint NOT NULL,
    id    text COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, n)
);
CREATE INDEX dependency_by_needs ON dependency (needs, seq);

-- How far the dependents of a job were looked through because it was to be deleted: all of them up to
-- this number have ended. A dependent that is replayed takes it back.
CREATE TABLE ended_dependents (
    seq   bigint PRIMARY KEY,
    up_to bigint NOT NULL
);

-- Who still waits for whom. Deleting a row is the fence: a dependency's end counts once. Few rows,
-- since what has ended blocks nobody: a store without waiting dependents has none.
CREATE TABLE blocker (
    needs bigint NOT NULL,
    seq   bigint NOT NULL,
    PRIMARY KEY (needs, seq)
);
CREATE INDEX blocker_by_seq ON blocker (seq);

-- Jobs that have ended and still block some: there were too many for one write, and the next goes on.
-- A purged one is deleted when all of them were told of its end.
CREATE TABLE resolving (
    seq    bigint PRIMARY KEY,
    purged smallint NOT NULL DEFAULT 0
);

-- Jobs that others wait for, with the priority they have from those, where it is above their own.
CREATE TABLE raised (
    seq  bigint PRIMARY KEY,
    base smallint NOT NULL
);

-- Where changes of those priorities have not reached everybody yet: there were too many jobs for one
-- write, and the next goes on.
CREATE TABLE inheriting (
    seq         bigint PRIMARY KEY,
    compared_to bigint,          -- its priority has changed; what it waits for, up to this number, knows
    is_suspect  boolean NOT NULL -- somebody may not raise it any more
);

-- Schedules: jobs that are submitted again and again. Times are microseconds since 1970, UTC.
CREATE TABLE schedule (
    name        text COLLATE "C" PRIMARY KEY,
    draft       text COLLATE "C" NOT NULL,     -- what was asked for: timing, job and policies, as JSON
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    next_at     bigint,           -- the next tick that was not fired yet
    due_at      bigint,           -- when to look; later than next_at if the job was refused
    paused      bigint NOT NULL,
    last_at     bigint,
    last_job_id text COLLATE "C",
    fired       bigint NOT NULL,
    missed      bigint NOT NULL,  -- ticks that made no job
    missed_at   bigint,           -- the latest of them
    error       text COLLATE "C",
    number      bigint GENERATED ALWAYS AS IDENTITY
);
-- Every exchange asks for the first due schedule: one seek, and none where there are no schedules.
CREATE INDEX schedule_by_due ON schedule (due_at, name) WHERE due_at IS NOT NULL;

-- Queues with rules of their own. A queue without a row here has none: it takes and runs everything.
CREATE TABLE queue (
    name         text COLLATE "C" PRIMARY KEY,
    state        text COLLATE "C" NOT NULL,
    config       text COLLATE "C" NOT NULL,
    -- How many of its jobs had ended at two moments, to measure how fast it drains.
    older_at     bigint,
    older_ended  bigint,
    newer_at     bigint,
    newer_ended  bigint,
    created_at   bigint,  -- NULL if nobody created it: it came with its first job
    created_by   text COLLATE "C",
    changed_at   bigint,
    changed_by   text COLLATE "C"
);

-- Token buckets that are not full: when each will be, in nanoseconds since 1970.
CREATE TABLE bucket (
    queue   text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    full_at bigint NOT NULL,
    PRIMARY KEY (queue, name)
);
CREATE INDEX bucket_by_time ON bucket (full_at);

-- Settings of the store.
CREATE TABLE setting (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL  -- JSON
);

-- Small texts that people leave on the store: deploy marks, named views, workers that are to stop.
CREATE TABLE pin (
    kind     text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    document text NOT NULL,  -- JSON
    PRIMARY KEY (kind, name)
);

-- Who may do what over the network. Of a token's secret only the hash is kept.
CREATE TABLE token (
    name     text COLLATE "C" PRIMARY KEY,
    digest   text COLLATE "C" NOT NULL UNIQUE,
    document text NOT NULL  -- JSON
);

-- Orders to many jobs, each with its plan, its progress and its report, in the order of their beginnings.
CREATE TABLE operation (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text COLLATE "C" NOT NULL UNIQUE,
    document text NOT NULL  -- JSON
);

-- What the jobs were before, one row for each write of an operation: what an undo goes back to.
CREATE TABLE operation_part (
    operation bigint NOT NULL,
    part      bigint NOT NULL,
    document  text NOT NULL,  -- JSON
    PRIMARY KEY (operation, part)
);

-- Retention: clean-ups and their records, the archive, and what is left of pruned jobs.

-- One row per clean-up. While it goes on it is also its own memory: which phase it is in, and where
-- that goes on. Whoever prunes next learns here whether it is its turn.
CREATE TABLE cleanup (
    run               bigint PRIMARY KEY,
    mode              text COLLATE "C" NOT NULL,
    actor             text COLLATE "C" NOT NULL,
    started_at        bigint NOT NULL,
    active_at         bigint NOT NULL,
    ended_at          bigint,
    completed         bigint NOT NULL,
    cancelled         bigint NOT NULL,
    dead              bigint NOT NULL,
    archived          bigint NOT NULL,
    results_dropped   bigint NOT NULL,
    histories_dropped bigint NOT NULL,
    archive_dropped   bigint NOT NULL,
    audit_archived    bigint NOT NULL,
    audit_dropped     bigint NOT NULL,
    writes            bigint NOT NULL,
    lock_micros       bigint NOT NULL,
    phase             smallint NOT NULL,  -- the numbers in core/rules/cleanup_store.py
    -- Up to which job number it has looked; and at which moment jobs had ended, where it goes by that.
    ended_up_to       bigint NOT NULL,
    seq_up_to         bigint NOT NULL,
    bound             bigint            -- the job number at which the phase ends, once that is known
);

-- The archive, a partition for each day on which jobs were archived (`keeping/days.py`): the oldest is
-- dropped as a whole. A key cannot span them; that a job is archived once is due to the write that does
-- it, which takes the job out of `job`.
CREATE TABLE archive (
    day           bigint NOT NULL,  -- of archived_at, counted from 1970, UTC
    seq           bigint NOT NULL,
    id            text COLLATE "C" NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    task          text COLLATE "C" NOT NULL,
    status        smallint NOT NULL,
    created_at    bigint NOT NULL,
    started_at    bigint,
    finished_at   bigint NOT NULL,
    archived_at   bigint NOT NULL,
    attempts      integer NOT NULL,
    error_type    text COLLATE "C",
    error_message text COLLATE "C",
    reason        text COLLATE "C",
    result        text COLLATE "C",  -- its summary
    metadata      text COLLATE "C",
    parent_id     text COLLATE "C",
    failure_count   bigint NOT NULL,
    first_failed_at bigint,
    last_failed_at  bigint,
    run_micros      bigint GENERATED ALWAYS AS (
        CASE WHEN started_at IS NOT NULL THEN greatest(0, finished_at - started_at) END) STORED,
    PRIMARY KEY (day, seq)
) PARTITION BY RANGE (day);
-- "What became of job X" must not read ninety days: it is looked for in the index of each.
CREATE INDEX archive_by_id ON archive (id);
-- The orders in which it is searched.
CREATE INDEX archive_by_task ON archive (task, day, seq);
CREATE INDEX archive_by_run ON archive (run_micros, day, seq) WHERE run_micros IS NOT NULL;
CREATE INDEX archive_by_task_and_run ON archive (task, run_micros, day, seq)
    WHERE run_micros IS NOT NULL;

-- The days that have a partition, and how many jobs each has; days that were dropped, until a clean-up
-- has counted their jobs.
CREATE TABLE archive_day (
    day        bigint PRIMARY KEY,
    jobs       bigint NOT NULL DEFAULT 0,
    is_dropped boolean NOT NULL DEFAULT false
);

-- Idempotency keys stand for 24 hours, also if their job is pruned before.
CREATE TABLE pruned_key (
    seq        bigint PRIMARY KEY,
    id         text COLLATE "C" NOT NULL,
    status     smallint NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX pruned_key_by_expiry ON pruned_key (expires_at);

-- Metrics. The lanes' counters grow for ever; the first write of a new minute looks at them before it
-- changes anything, and keeps what they grew by since the last look. So a series costs the jobs
-- nothing. Minutes and days are counted from 1970, UTC.

-- How long jobs waited and ran since the last look: the measures of core/model/span.py, in the buckets
-- of core/model/histogram.py; and under lane 0 what workers did: by what was counted (0 leased,
-- 1 completed, 2 failed, 3 lost) and by worker. Rows are only added, summed up by who reads, and
-- emptied every minute.
CREATE TABLE measured (
    lane    bigint NOT NULL,
    measure smallint NOT NULL,
    bucket  bigint NOT NULL,
    jobs    bigint NOT NULL,
    micros  bigint NOT NULL  -- what they took together
);

-- What happened, by resolution (the numbers in core/rules/sampling.py): the counters as they were at the last
-- look, each minute in which anything happened, and the sums of the minutes of each day. `measures` is
-- MessagePack: by measure, what its durations add up to, and how many fell into each bucket.
CREATE TABLE span (
    resolution         smallint NOT NULL,
    queue              text COLLATE "C" NOT NULL,
    at                 bigint NOT NULL,
    submitted          bigint NOT NULL,
    leased             bigint NOT NULL,
    completed          bigint NOT NULL,
    failed             bigint NOT NULL,
    retried            bigint NOT NULL,
    dead               bigint NOT NULL,
    cancelled          bigint NOT NULL,
    lost               bigint NOT NULL,
    recovered          bigint NOT NULL,
    renewed            bigint NOT NULL,
    rejected           bigint NOT NULL,
    rate_limited       bigint NOT NULL,
    cleaned            bigint NOT NULL,
    submitted_low      bigint NOT NULL,
    submitted_medium   bigint NOT NULL,
    submitted_high     bigint NOT NULL,
    submitted_critical bigint NOT NULL,
    pending_before     bigint NOT NULL,
    pending            bigint NOT NULL,
    deepest            bigint NOT NULL,
    oldest_micros      bigint NOT NULL,
    measures           bytea NOT NULL,
    PRIMARY KEY (resolution, queue, at)
);
-- To read the latest of all queues, and to forget the oldest of whichever.
CREATE INDEX span_by_time ON span (resolution, at);

-- Attempts that failed, by the fingerprint of their error; at most as many as core/rules/failures.py says.
CREATE TABLE failure (
    fingerprint text COLLATE "C" PRIMARY KEY,
    queue       text NOT NULL,
    task        text NOT NULL,
    error_type  text NOT NULL,
    message     text NOT NULL,  -- without numbers, ids and addresses
    frame       text NOT NULL,
    count       bigint NOT NULL,
    first_at    bigint NOT NULL,
    last_at     bigint NOT NULL,
    jobs        text NOT NULL,  -- some of their ids, the latest first, as JSON
    hours       text NOT NULL   -- how many in the last hour, in the one before, and so on, as JSON
);

-- The same attempts by the type of their error alone; its counts only grow.
CREATE TABLE error_total (
    queue      text COLLATE "C" NOT NULL,
    error_type text COLLATE "C" NOT NULL,
    attempts   bigint NOT NULL,
    last_at    bigint NOT NULL,
    PRIMARY KEY (queue, error_type)
);

-- What each worker ever did in a queue up to the open minute, also those that are gone; the latest so
-- many are kept. What they did in that minute is in `measured`.
CREATE TABLE worker_total (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker    text COLLATE "C" NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    leased    bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    lost      bigint NOT NULL DEFAULT 0,
    first_at  bigint NOT NULL,  -- the beginning of that minute
    last_at   bigint NOT NULL,
    UNIQUE (worker, queue)
);

-- The change feed, written by triggers that are there only while somebody follows it (feed.py).
CREATE TABLE change (
    n      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- its numbers are never used again
    kind   smallint NOT NULL,
    name   text COLLATE "C",     -- NULL for a job that is still there
    seq    bigint,
    status smallint,
    events integer
);

-- Replies to requests that may be sent twice, for some minutes (replies.py).
CREATE TABLE reply (
    n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id   text COLLATE "C" NOT NULL UNIQUE,
    at   bigint NOT NULL,
    data bytea NOT NULL
);

-- What writes leave behind, by which their clients find out whether they are kept (marks.py).
CREATE TABLE mark (
    id      bigint PRIMARY KEY,
    made_at bigint NOT NULL,
    writes  bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX mark_by_age ON mark (made_at);

-- Payloads and results that are too large for a row, in parts (blobs.py). They are compressed by who
-- makes them or not at all, and read from their beginning.
CREATE TABLE blob (
    key  text COLLATE "C" NOT NULL,
    part bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (key, part)
);
ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;

-- Tables whose rows live for moments: cleaned up as soon as some thousand are dead.
DO $$
DECLARE
    hot text;
BEGIN
    FOREACH hot IN ARRAY ARRAY['ready', 'waiting', 'running', 'place', 'lane', 'lane_delta', 'measured',
                               'store_state', 'blocker', 'reply', 'mark'] LOOP
        EXECUTE format(
            'ALTER TABLE %I SET (autovacuum_vacuum_threshold = 2000,'
            ' autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)', hot);
    END LOOP;
END
$$;
