"""Large payloads and results, kept beside the store that only holds references to them.

Read it in this order: `contract` (a blob store's promises), `folder`, `s3`, `memory`, `place`
(URL -> blob store; a store on PostgreSQL has one of its own), `blobs` (the face to the rest of
Leasehold), `cleaning` (blobs without a job are deleted), `moving` (they follow their store).
"""
