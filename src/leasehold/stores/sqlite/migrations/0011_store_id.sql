-- An id of its own for every store, by which its blobs are told from those of others. It stays with
-- the file, and with every copy of it.
INSERT INTO meta VALUES ('store_id', lower(hex(randomblob(16))));
