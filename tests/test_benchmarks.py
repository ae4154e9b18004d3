"""The benchmarks write the store's rows by hand: a change of the schema must not leave them behind.

What they measure is of no interest here; that they still run, and leave a sound store, is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks import against, mixed, ours, page, raw, service, wire
from benchmarks.contest import CONTENDERS, Fresh
from benchmarks.served import served

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


def test_coroutines_of_one_loop_submit_together(tmp_path: Path) -> None:
    assert ours.submit_on_one_loop(str(tmp_path / "loop.db"), "normal", 40, 20) > 0


def test_a_contender_submits_and_works(tmp_path: Path) -> None:
    [ours_on_sqlite] = [each for each in CONTENDERS if each.name == "Leasehold, SQLite"]
    url = str(tmp_path / "jobs.db")
    sizes = against.Sizes(quick=True)
    sizes.drain = 5
    fresh = Fresh(ours_on_sqlite, sys.executable, url, tmp_path / "effects")
    assert against.drain(fresh, sizes)["drain, jobs/s"] > 0
    assert {effect.number for effect in fresh.effects()} <= {0, 1, 2, 3, 4, 5}


def test_the_page_is_made_of_figures() -> None:
    rows = {
        "Leasehold, SQLite": {"submit, jobs/s": 1890.0, "kill -9, jobs lost": 0},
        "huey, SQLite": {"submit, jobs/s": 2820.4, "pick-up p50, ms": 2.63},
    }
    text = page.table("two cores", rows)
    assert "| Leasehold, SQLite | each write synced | 1,890 | - | 0 |" in text
    assert "| huey, SQLite | each write synced | 2,820 | 2.6 | - |" in text
    assert "submit, jobs/s: huey, SQLite;" in text  # It says where others win.
    drawn = ET.fromstring(page.chart(rows))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) == 2


def test_the_service_answers_what_is_measured(tmp_path: Path) -> None:
    with served(str(tmp_path / "served.db")) as server:
        for kind in (service._empty, service._submit, service._look):
            assert wire.rate(server.port, kind(server), 2) > 0
        assert wire.rate(server.port, service._submit(server), 4, connections=2) > 0
        assert server.cpu_seconds() > 0
        assert server.memory_bytes() > 0
