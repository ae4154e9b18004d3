-- Limits per key: of one key, lane and tier, the best pending jobs stand in `ready` as ever, as many
-- as the key has free slots. The others are parked: in `ready` too, in the same order, but under the
-- lane number -key_lane.id, where no lease looks.
ALTER TABLE job ADD COLUMN limit_key TEXT;

-- One row per key and lane that has jobs pending or running, in queues with a key_concurrency only.
CREATE TABLE key_lane (
    id      INTEGER PRIMARY KEY,
    queue   TEXT NOT NULL,
    key     TEXT NOT NULL,
    lane    INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    UNIQUE (lane, key)
);
CREATE INDEX key_lane_by_key ON key_lane (queue, key);

-- A pending job that is counted for its key has a row in `place`, which names its key_lane and, while
-- it is parked, the lane number it stands under.
ALTER TABLE place ADD COLUMN lane INTEGER;
ALTER TABLE place ADD COLUMN key_lane INTEGER;
-- Those of a key that leases see, in their order.
CREATE INDEX place_shown ON place (key_lane, tier, turn, seq)
    WHERE key_lane IS NOT NULL AND lane IS NULL;
