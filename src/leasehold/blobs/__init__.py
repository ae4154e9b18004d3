"""Large payloads and results, kept beside the store that only holds references to them.

Read it in this order: `contract` (what a blob store must keep), `folder`, `s3`, `memory`, `place`
(URL -> blob store; a store on PostgreSQL has one of its own), `blobs` (what the rest of Leasehold
uses), `cleaning` (what belongs to nothing any more goes), `moving` (they follow their store).
"""
