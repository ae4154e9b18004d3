"""The benchmarks write the store's rows by hand: a change of the schema must not leave them behind.

What they measure is of no interest here; that they still run, and leave a sound store, is.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import mixed, ours, raw

from leasehold.stores.sqlite import SQLiteStore


def test_the_raw_limit_writes_the_rows_of_today(tmp_path: Path) -> None:
    assert raw.submit(str(tmp_path / "submit.db"), "normal", 20, 10) > 0
    assert raw.single_insert(str(tmp_path / "insert.db"), "normal", 3) > 0
    assert raw.drain(str(tmp_path / "drain.db"), "normal", 20, 10) > 0


def test_a_store_that_is_filled_in_bulk_works(tmp_path: Path) -> None:
    path = str(tmp_path / "finished.db")
    ours.fill_finished(path, 50)
    store = SQLiteStore(path)
    assert store.stats().completed == 50
    assert store.get("0190f4a2-0000-7000-8000-000000000050") is not None
    store.close()


def test_leases_among_mixed_jobs(tmp_path: Path) -> None:
    path = str(tmp_path / "mixed.db")
    mixed.fill(path, "normal", 30)
    assert mixed.lease_micros(path, "normal", 5) > 0
