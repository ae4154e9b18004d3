"""The soak on PostgreSQL: every call is judged by the independent model.

Its answers are not compared with those of the other stores. Lease versions are numbers of one
sequence there, while the others count per job; and how it tells the time is its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.status import Event
from leasehold.env import Env
from leasehold.testing.soak import Coverage, Scenario, run
from leasehold.testing.soak.rules import RULES
from leasehold.testing.soak.subjects import Open, Stage
from support.effort import THOROUGH
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.clauses import NOT_KEPT  # noqa: E402
from leasehold.stores.postgres.server import lending  # noqa: E402

SEEDS = range(24) if THOROUGH else (7, 13, 21)
"""Those few meet together most of what is met."""
STEPS = 200 if THOROUGH else 60


@pytest.fixture(autouse=True)
def judged_by_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock is another one: see the clauses that it does not keep."""
    for clause in NOT_KEPT.keys() & RULES.keys():
        monkeypatch.delitem(RULES, clause)


@pytest.fixture
def stage(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """One store at a time, in a schema that the next run is lent again."""
    monkeypatch.setattr(lending, "open_pool", schemas.open_pool)
    lent: list[str] = []

    def take_back() -> None:
        while lent:
            schemas.take_back(lent.pop())

    def new() -> Open:
        take_back()
        url = schemas.lend()
        lent.append(url)

        def open_store(env: Env) -> Store:
            return PostgresStore(url, env=env)

        return open_store

    yield Stage({"postgres": (new, True)})
    take_back()


def test_every_rule_is_kept(stage: Stage) -> None:
    met = Coverage()
    for seed in SEEDS:
        report = run(Scenario(seed, steps=STEPS), stage)
        assert report.broken is None, "\n".join([*report.trace[-5:], str(report.broken)])
        met.add(report.coverage)
    often = {"LEA-1", "SET-1", "HIS-1", "HIS-2", "DEP-1", "CAN-1", "REC-1", "MET-1"}
    assert [name for name in sorted(often) if not met.rules[name]] == []


def test_a_store_that_hides_an_event_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = PostgresStore.history

    def without_leases(store: PostgresStore, job_id: str) -> list[HistoryEvent]:
        return [each for each in honest(store, job_id) if each.event is not Event.LEASED]

    monkeypatch.setattr(PostgresStore, "history", without_leases)
    assert run(Scenario(SEEDS[0], steps=STEPS), stage).broken is not None
