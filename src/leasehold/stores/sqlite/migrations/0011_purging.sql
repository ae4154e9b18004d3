-- A purged job that others wait for is deleted only when all of them were told of its end.
ALTER TABLE resolving ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
