"""Leasehold as it would be if SQLite synced inside each commit, one process after the other."""

from __future__ import annotations

from leasehold.stores.sqlite.disk import log_sync

log_sync.IS_POSSIBLE = False

from benchmarks.rivals.leasehold_itself import submit, submit_many, work  # noqa: E402

__all__ = ["submit", "submit_many", "work"]
