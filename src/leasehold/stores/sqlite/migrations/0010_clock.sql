-- The store's clock against the machine's: core/clock.py says what these mean. They change when the
-- clocks of the machine disagree, so most writes only read them, with the clock.
ALTER TABLE store_state ADD COLUMN boot_id TEXT NOT NULL DEFAULT '';
ALTER TABLE store_state ADD COLUMN basis_clock INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN basis_awake INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN basis_boot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN doubt_since INTEGER;
ALTER TABLE store_state ADD COLUMN doubt_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN clock_repairs INTEGER NOT NULL DEFAULT 0;

-- By how much a lease's expiry was moved because the clock moved on without its holder.
ALTER TABLE running ADD COLUMN moved_by INTEGER NOT NULL DEFAULT 0;
