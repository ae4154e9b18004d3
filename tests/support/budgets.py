"""Each budget of `core.model.budget` in play: what one write does is counted, write by write.

A case fills a store with more than twice its budget, lets it go, and tells what was done in each
write, or in each call where the budget is one of calls. The figures are those of the file itself:
so the cases can also be run against a library in which they were changed (`mutated_budgets`).
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import leasehold
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.retention import Scope as Retained
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.span import WORKERS_KEPT, Span
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Every
from leasehold.core.rules import parking
from leasehold.core.rules.inheritance import NumberedBases
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.stores.memory import dependents as memory_dependents
from leasehold.stores.memory import lanes as memory_lanes
from leasehold.stores.memory import parking as memory_parking
from leasehold.stores.tables.dependents import TableDependents
from leasehold.stores.tables.parking import TableKeyShelf
from leasehold.stores.tables.rebalance import TablePasses
from support.counted_writes import Scene

_FILE: Final = Path(leasehold.__file__).parent / "core" / "model" / "budget.py"
AT_ONCE: Final[dict[str, int]] = {
    name.removesuffix("_AT_ONCE"): figure
    for name, figure in runpy.run_path(str(_FILE)).items()
    if name.endswith("_AT_ONCE")
}
"""What the file says, whatever the library was made to believe."""


# -- the cases, each in the words of its budget ------------------------------------------------


def promoted(scene: Scene, many: int) -> list[int]:
    scene.fill(many, delay_seconds=1)
    scene.clock.advance(2)
    with scene.watching(scene.jobs(Status.PENDING)) as growth:
        scene.store.promote()
    return growth


def placed(scene: Scene, many: int) -> list[int]:
    scene.fill(many)
    if scene.is_in_memory:
        scene.count(memory_lanes.Lanes, "place_anew", lambda *_: 1)
    else:
        scene.count(TablePasses, "move", lambda _, passes, jobs: len(jobs))
    with scene.watching(lambda: scene.counted) as growth:
        scene.store.update_queue("default", {"fifo_mode": True}, actor="me")
    return growth


def shown(scene: Scene, many: int) -> list[int]:
    scene.store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    scene.fill(many, limit_key="one")
    shelf = memory_parking.ParkingShelf if scene.is_in_memory else TableKeyShelf
    scene.count(shelf, "show", lambda *_: 1)
    with scene.watching(lambda: scene.counted) as growth:
        scene.store.update_queue("default", {"key_concurrency": 10**6}, actor="me")
    return growth


def rested(scene: Scene, many: int) -> list[int]:
    scene.store.create_queue("default", QueueConfig(key_starts_per_second=0.01), actor="me")
    keys = [f"key-{n // 2}" for n in range(2 * many)]
    scene.submit([Draft(id=f"{n}", task="t", limit_key=key) for n, key in enumerate(keys)])
    begun = scene.lease(limit=many)
    scene.store.exchange([Settlement(each.job_id, each.version, Complete()) for each in begun])
    scene.clock.advance(3600)
    scene.count(parking, "look_again", lambda _, shelf, keys: len(list(keys)))
    with scene.watching(lambda: scene.counted) as growth:
        for _ in range(3):
            # Nobody can take a job: each start would be a look at its key, too.
            scene.lease(limit=1, tasks=("other",))
    return growth


def parked_keys(scene: Scene, many: int) -> list[int]:
    scene.store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    for group in ("first", "second"):
        scene.submit(
            [
                Draft(id=f"{group}-{n}", task="t", limit_key=f"{n}", parent_id=group)
                for n in range(many)
            ]
        )
    scene.lease(limit=many, parent_id="first")
    if scene.is_in_memory:
        scene.count(memory_parking.ParkingShelf, "some_of_group", lambda found, *_: len(found))
    else:
        scene.count(TableKeyShelf, "parked_in_group", lambda found, *_: len(found[0]))
    with scene.watching(lambda: scene.counted) as growth:
        for _ in range(3):
            scene.lease(limit=1, parent_id="second")
    return growth


def turned_away(scene: Scene, many: int) -> list[int]:
    """Whoever set the limit was killed before the pass that parks the jobs came to them."""
    placed_before = 2 * AT_ONCE["PLACED"]
    scene.fill(1 + placed_before + many, limit_key="one")
    scene.lease()
    if scene.is_in_memory:
        scene.patch.setattr(memory_lanes.Lanes, "rebalance", lambda *_: False)
    else:
        store: Any = scene.store
        scene.patch.setattr(store._database, "rebalance_the_rest", lambda: None)
    scene.store.update_queue("default", {"key_concurrency": 1}, actor="me")
    scene.count(parking, "turn_away", lambda *_: 1)
    with scene.watching(lambda: scene.counted) as growth:
        scene.lease()
    return growth


def passed_over(scene: Scene, many: int) -> list[int]:
    scene.fill(many, start_within_seconds=1)
    scene.clock.advance(2)
    with scene.watching(scene.jobs(Status.CANCELLED)) as growth:
        for _ in range(3):
            scene.lease()
    return growth


def late(scene: Scene, many: int) -> list[int]:
    """So many in one sweep, in however many writes."""
    scene.fill(many, start_within_seconds=1)
    scene.clock.advance(2)
    cancelled = scene.jobs(Status.CANCELLED)
    found = [cancelled()]
    while found[-1] < many:
        scene.store.recover()
        found.append(cancelled())
    return [after - before for before, after in pairwise(found)]


def late_looked(scene: Scene, many: int) -> list[int]:
    scene.fill(many, start_within_seconds=1)
    scene.lease(limit=many, lease_seconds=3600)
    scene.clock.advance(2)
    store: Any = scene.store
    with scene.watching(lambda: len(store._state._to_start)) as growth:
        for _ in range(3):
            scene.store.recover()
    return growth


def recovered(scene: Scene, many: int) -> list[int]:
    scene.fill(many)
    scene.lease(limit=many, lease_seconds=5)
    scene.clock.advance(10)
    with scene.watching(scene.jobs(Status.RUNNING)) as growth:
        scene.store.recover()
    return growth


def buried(scene: Scene, many: int) -> list[int]:
    scene.fill(many)
    with scene.watching(scene.jobs(Status.DEAD)) as growth:
        scene.store.delete_queue("default", force=True, actor="me")
    return growth


def dependents(scene: Scene, many: int) -> list[int]:
    scene.store.submit([Draft(id="root", task="t")])
    scene.fill(many, depends_on=("root",))
    with scene.watching(scene.jobs(Status.BLOCKED)) as growth:
        scene.store.cancel(["root"], reason="so", actor="me")
    return growth


def dependents_looked(scene: Scene, many: int) -> list[int]:
    scene.store.submit([Draft(id="root", task="t")])
    scene.fill(many, depends_on=("root",))
    scene.store.cancel(["root"], reason="so", actor="me")
    scene.count(TableDependents, "next", lambda found, *_: len(found))
    with scene.watching(lambda: scene.counted) as growth:
        scene.store.discard(["root"], actor="me")
    return growth


def inherited(scene: Scene, many: int) -> list[int]:
    names = tuple(f"{n}" for n in range(many))
    scene.fill(many, priority=10)
    scene.store.submit([Draft(id="last", task="t", priority=10, depends_on=names)])
    bases = memory_dependents.Bases if scene.is_in_memory else NumberedBases
    scene.count(bases, "next_to_compare", lambda found, *_: len(found.needs) if found else 0)
    with scene.watching(lambda: scene.counted) as growth:
        scene.store.reprioritize("last", 90, actor="me")
    return growth


def schedules(scene: Scene, many: int) -> list[int]:
    return _ticks(scene, schedules=many, ticks=1)


def scheduled_jobs(scene: Scene, many: int) -> list[int]:
    return _ticks(scene, schedules=many // 1000 + 1, ticks=1000)


def _ticks(scene: Scene, *, schedules: int, ticks: int) -> list[int]:
    for n in range(schedules):
        job = Draft(id=f"s{n}", task="t")
        draft = ScheduleDraft(
            name=f"s{n}", timing=Every(1), job=job, misfire="catch_up", catch_up_max=ticks
        )
        scene.store.set_schedule(draft, actor="me")
    scene.clock.advance(ticks)
    with scene.watching(lambda: scene.store.stats().submitted) as growth:
        while scene.store.fire_schedules().jobs:
            pass
    return growth


def purge(scene: Scene, many: int) -> list[int]:
    scene.fill(many)
    with scene.watching(scene.jobs(Status.PENDING)) as growth:
        while scene.store.purge_queue("default", JobFilter(), actor="me").more:
            pass
    return growth


def forgotten_buckets(scene: Scene, many: int) -> list[int]:
    scene.store.create_queue("default", QueueConfig(client_rate_per_second=1.0), actor="me")
    scene.submit([Draft(id=f"{n}", task="t", client=f"{n}") for n in range(many)])
    scene.clock.advance(3600)
    with scene.watching(lambda: scene.rows("bucket")) as growth:
        for n in range(3):
            scene.store.submit([Draft(id=f"new-{n}", task="t", client=f"new-{n}")])
    return growth


def forgotten_minutes(scene: Scene, many: int) -> list[int]:
    spans = [KeptSpan(Resolution.MINUTE, "default", at, Span()) for at in range(many)]
    shelf = scene.own("reading.figures").SpanShelf
    scene.write(lambda step: shelf(step.db).keep(spans))
    return _next_minutes(scene, "span")


def forgotten_workers(scene: Scene, many: int) -> list[int]:
    kept = ", ".join(f"('w-{n}', 'default', 0, {n})" for n in range(many + WORKERS_KEPT))
    insert = f"INSERT INTO worker_total (worker, queue, first_at, last_at) VALUES {kept}"
    scene.write(lambda step: step.execute(insert))
    return _next_minutes(scene, "worker_total")


def _next_minutes(scene: Scene, table: str) -> list[int]:
    with scene.watching(lambda: scene.rows(table)) as growth:
        for n in range(3):
            scene.clock.advance(60)
            scene.store.submit([Draft(id=f"new-{n}", task="t")])
    return growth


def mended(scene: Scene, many: int) -> list[int]:
    row = "'default', 'c-' || value, 'garbage' FROM json_each(?)"
    numbers = f"[{', '.join(map(str, range(many)))}]"
    scene.write(lambda step: step.execute(f"INSERT INTO bucket SELECT {row}", (numbers,)))
    with scene.watching(lambda: scene.rows("bucket")) as growth:
        scene.store.prune(RetentionPolicy(), scope=Retained(force=True), actor="me")
    return growth


def mended_key(scene: Scene, many: int) -> list[int]:
    """The account of a key cannot be read: its jobs stand in their lane again."""
    scene.store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    scene.fill(many, limit_key="one")
    scene.write(lambda step: step.execute("UPDATE key_lane SET running = 'garbage'"))
    with scene.watching(lambda: scene.rows("ready WHERE lane > 0")) as growth:
        scene.store.prune(RetentionPolicy(), scope=Retained(force=True), actor="me")
    for _ in range(3):
        scene.lease()  # Leases count them for their key again.
    return growth


Case = Callable[[Scene, int], list[int]]
TABLES: Final = ("sqlite", "postgres")
STORES: Final = ("memory", *TABLES)


class InPlay(NamedTuple):
    """One budget, how it shows, and which stores it bounds."""

    budget: str
    case: Case
    stores: Sequence[str] = STORES


IN_PLAY: Final = (
    InPlay("PROMOTED", promoted),
    InPlay("PLACED", placed),
    InPlay("SHOWN", shown),
    InPlay("RESTED", rested),
    InPlay("PARKED_KEYS", parked_keys),
    InPlay("TURNED_AWAY", turned_away),
    InPlay("PASSED_OVER", passed_over),
    InPlay("LATE", late),
    InPlay("LATE_LOOKED", late_looked, ("memory",)),
    InPlay("RECOVERED", recovered),
    InPlay("BURIED", buried),
    InPlay("DEPENDENTS", dependents),
    # The memory store knows by itself who has not ended.
    InPlay("DEPENDENTS_LOOKED", dependents_looked, TABLES),
    InPlay("INHERITED", inherited),
    InPlay("SCHEDULES", schedules),
    InPlay("SCHEDULED_JOBS", scheduled_jobs),
    InPlay("PURGE", purge),
    InPlay("FORGOTTEN", forgotten_buckets, TABLES),
    InPlay("FORGOTTEN", forgotten_minutes, TABLES),
    InPlay("FORGOTTEN", forgotten_workers, TABLES),
    # PostgreSQL sees to damage itself.
    InPlay("MENDED", mended, ("sqlite",)),
    InPlay("MENDED", mended_key, ("sqlite",)),
)


def is_kept(each: InPlay, scene: Scene) -> bool:
    """Whether one write does as much as its budget allows, and no more.

    What one write adds while it takes others away, a row or two, is not counted apart.
    """
    budget = AT_ONCE[each.budget]
    most = max(each.case(scene, 2 * budget + 7))
    return 0.99 * budget <= most <= budget
