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
    error       TEXT
);
-- Every exchange asks for the first due schedule: one seek, and none where there are no schedules.
CREATE INDEX schedule_by_due ON schedule (due_at) WHERE due_at IS NOT NULL;
