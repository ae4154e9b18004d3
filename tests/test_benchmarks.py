"""The benchmarks write the store's rows by hand: a change of the schema must not leave them behind.

What they measure is of no interest here; that they still run, and leave a sound store, is.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks import against, bench, mixed, ours, page, raw, rounds, service, wire
from benchmarks.chart import chart
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.contest import Fresh
from benchmarks.places import Places
from benchmarks.results import Results, Row
from benchmarks.served import served

from leasehold.stores.sqlite import SQLiteStore
from support.redis_servers import needs_redis, redis_server
from support.servers import Schemas, needs_psycopg


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
    url = str(tmp_path / "jobs.db")
    sizes = replace(rounds.QUICK, drain=5)
    fresh = Fresh(CONTENDERS[0], sys.executable, url, tmp_path / "effects")
    assert rounds.drain(fresh, sizes)["drain, jobs/s"] > 0
    assert {effect.number for effect in fresh.effects()} == {0, 1, 2, 3, 4, 5}


def test_producers_begin_when_all_of_them_have_started(tmp_path: Path) -> None:
    fresh = Fresh(CONTENDERS[0], sys.executable, str(tmp_path / "jobs.db"), tmp_path / "effects")
    with fresh.worker():
        fresh.producers(jobs=3, number=2)
        fresh.wait_for(8, 30)
    effects = fresh.effects()
    assert sorted(effect.number for effect in effects) == [0, 0, 1, 1, 2, 2, 3, 3]
    all_had_started = max(effect.ran for effect in effects if effect.number == 3)
    assert all(effect.sent >= all_had_started for effect in effects if effect.number < 3)


def test_the_parameters_of_a_contender_are_not_taken_for_its_file_name(tmp_path: Path) -> None:
    [normal] = [each for each in CONTENDERS if each.name == "Leasehold, SQLite normal"]
    store = tmp_path / "store"
    store.mkdir()
    fresh = Fresh(normal, sys.executable, str(store / "jobs.db"), tmp_path / "effects")
    fresh.submit(1)
    assert {path.name for path in store.iterdir()} == {"jobs.db", "jobs.db-run"}


def test_a_contender_that_fails_ends_nothing(tmp_path: Path) -> None:
    broken = Contender("broken, SQLite", "huey_sqlite", "sqlite", "none", "none", environment="no")
    with ExitStack() as stack:
        results = Results("two cores", rounds.QUICK)
        run = against.Run(Places(tmp_path, stack), tmp_path, rounds.QUICK, results)
        run.measure(broken, "drain")
        run.kill([broken])
    failures = results.rows["broken, SQLite"].failures
    assert failures.keys() == {"drain", "kill"}
    assert all("not installed: make .venv/rivals" in why for why in failures.values())


def test_what_redis_buys_can_be_measured(schemas: Schemas) -> None:
    needs_psycopg()
    needs_redis()
    from benchmarks import accelerated

    with redis_server() as server:
        run = accelerated.Run(schemas.url, server, share=0)
        for part in accelerated.PARTS.values():
            part(run)
    of_leases = 2 * 2 * (1 + len(accelerated.DEAD_ROWS))
    assert len(run.rows) == 2 + 4 + len(accelerated.BATCHES) + of_leases
    assert all(each >= 0 for row in run.rows for each in row["found"].values())


def test_a_run_that_was_cut_off_goes_on_where_it_ended(tmp_path: Path) -> None:
    kept = str(tmp_path / "rows.json")
    sizes = replace(rounds.QUICK, one_by_one=3, bulk=5, drain=5)
    with ExitStack() as stack:
        places = Places(tmp_path, stack)
        first = against.Run(places, tmp_path / "first", sizes, Results("two", sizes), kept)
        first.measure(CONTENDERS[0], "drain")
        results = Results.load(kept)
        results.rows[CONTENDERS[0].name].figures["drain, jobs/s"] = 7.0
        again = against.Run(places, tmp_path / "again", sizes, results, kept)
        again.measure_all([CONTENDERS[0]], ["drain", "submit"])
    row = Results.load(kept).rows[CONTENDERS[0].name]
    assert row.done == ["drain", "submit"]
    assert row.figures["drain, jobs/s"] == 7.0
    assert row.figures["submit, jobs/s"] > 0


def test_the_page_is_made_of_figures(tmp_path: Path) -> None:
    rows = {
        "Leasehold, SQLite": Row("0.1", {"submit, jobs/s": 1890.0, "pick-up p50, ms": 3.0}),
        "huey, SQLite": Row("3.5", {"submit, jobs/s": 2820.4, "pick-up p50, ms": 2.63}),
        "RQ, Redis": Row("2.12", {}, {"drain": "no server"}),
    }
    saved = tmp_path / "rows.json"
    Results("two cores", rounds.QUICK, rows).save(str(saved))
    text = page.contents(Results.load(str(saved)))
    assert "| Leasehold, SQLite | each write synced | 1,890 | - | - | - | - | - |" in text
    assert "| RQ, Redis | none | failed: no server | | | | | |" in text
    assert "- **submit**: huey, SQLite 2,820 (1,890)" in text
    assert "- **pick-up idle p50**: huey, SQLite 2.6 (3)" in text
    assert "- RQ, Redis, drain: no server" in text
    drawn = ET.fromstring(chart(rows))
    bars = drawn.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + 3 + 2  # The paper, the legend, the submits.


def test_what_is_asked_stands_beside_what_was_reached() -> None:
    rows = [
        bench.Row(
            "submit", "full", "per s", {"empty": 200, "submit": 150}, {"ratio": 0.75}, "0.60", True
        ),
        bench.Row("processor time", "full", "us", {"submit": 5}),
        bench.Row(
            "memory", "full", "MiB", dict.fromkeys("abcd", 9), {"growth": 0.05}, "under 2 %", False
        ),
    ]
    assert [line.split() for line in bench.asked_and_reached(rows).splitlines()[1:]] == [
        ["submit", "0.60", "empty", "200,", "submit", "150", "per", "s;", "ratio", "0.750", "met"],
        ["memory", "under", "2", "%", "growth", "0.050", "MISSED"],
    ]


def test_the_service_answers_what_is_measured(tmp_path: Path) -> None:
    with served(str(tmp_path / "served.db")) as server:
        for kind in (service._empty, service._submit, service._look):
            assert wire.rate(server.port, kind(server), 2) > 0
        assert wire.rate(server.port, service._submit(server), 4, connections=2) > 0
        assert server.cpu_seconds() > 0
        assert server.memory_bytes() > 0
