-- Where the store's time went on when the server's clock was last found set back: what the store
-- showed then, and what the server's clock showed. Since then it has gone on at half its pace.
ALTER TABLE store_state
    ADD COLUMN pace_clock  bigint NOT NULL DEFAULT 0,
    ADD COLUMN pace_server bigint NOT NULL DEFAULT 0;
