"""Leasehold on PostgreSQL beside other queues and beside a bare loop: `make bench-postgres`."""
