"""Loss of power at every write: what is left opens, is sound, and keeps what was promised."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from leasehold.core.model.lease import LeaseRequest
from leasehold.env import Env
from leasehold.errors import StoreError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import Durability
from leasehold.stores.sqlite.schema.migrate import migrate
from support.effort import drawn
from support.faulty_vfs import (
    Image,
    Operation,
    crash_images,
    disk_under_sqlite,
    lengthen_short_logs,
)
from support.sqlite_workload import (
    CALLS,
    Content,
    assert_sound,
    content,
    end_lives,
    held,
    new_env,
    open_store,
    rows,
    without_floor,
)

SEEDS = (20300101, 20300102)[: drawn(2)]
SEED_OF_SECOND_CRASH = 20300102
LONG_AFTER_SECONDS = 100_000


class Recording(NamedTuple):
    """What the workload asked of the disk, and what it had been promised when."""

    operations: list[Operation]
    acknowledged_at: list[int]
    """How many operations had been asked for when each call returned; opening comes first."""
    unborn: list[Content]
    """What may be found as long as the opening was not acknowledged."""
    contents: list[Content]
    """The whole store after each call."""
    granted: list[set[tuple[str, int]]]
    """Every lease granted until then."""


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.disk.connection.WAL_PAGES_BEFORE_CHECKPOINT", 30)
    lengthen_short_logs(monkeypatch)


def record(folder: Path, durability: Durability, *, syncs_lie: bool = False) -> Recording:
    with disk_under_sqlite() as disk:
        disk.syncs_lie = syncs_lie
        store = open_store(folder / "jobs.db", durability)
        recording = Recording(disk.operations, [], [], [], [])
        granted: set[tuple[str, int]] = set()
        for call in (lambda _: None, *CALLS):
            call(store)
            granted = granted | held(store)
            recording.acknowledged_at.append(len(disk.operations))
            recording.contents.append(content(store))
            recording.granted.append(granted)
        assert_sound(store)
        store.close()
        end_lives()
    recording.unborn.extend(stores_without_past(folder))
    return recording


def env_afterwards() -> Env:
    """The machine has lost its power, and was started again long after."""
    return new_env(LONG_AFTER_SECONDS, "another start")


def tables_alone(path: Path) -> Content:
    """Leave a store whose maker came no further than its tables."""
    db = apsw.Connection(str(path))
    migrate(db, path)
    left = rows(db)
    db.close()
    return left


def stores_without_past(folder: Path) -> list[Content]:
    """One whose maker did not come to note the time, and one that is made after the crash."""
    bare = tables_alone(folder / "bare.db")
    made_afterwards = open_store(folder / "made-afterwards.db", env=env_afterwards())
    contents = [bare, content(made_afterwards)]
    made_afterwards.close()
    return contents


def open_image(folder: Path, image: Image, durability: Durability) -> SQLiteStore:
    """A store whose tables are complete is not written to by opening it: it shows as it was left.

    One that is not is completed, as the first thing that is written after the crash.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in image.items():
        (folder / name).write_bytes(data)
    return open_store(folder / "jobs.db", durability, env_afterwards())


def problems_of(
    store: SQLiteStore, recording: Recording, point: int, durability: Durability
) -> list[str]:
    """What is wrong with a store found after a crash at this point."""
    acknowledged = sum(at <= point for at in recording.acknowledged_at)
    problems = store.check()
    found = content(store)
    # Everything that was acknowledged, and at most the one call that was under way. Of what was not
    # synced, any last part may be missing.
    sure = acknowledged if durability == "full" else 0
    possible = recording.contents[max(0, sure - 1) : acknowledged + 1]
    if not sure:
        possible = recording.unborn + possible
    # Whoever opens the store raises the floor under its versions: they may only grow.
    if without_floor(found) not in map(without_floor, possible):
        problems.append(f"it holds no state that {acknowledged} acknowledged calls may leave")
    store.recover()
    everything = LeaseRequest(worker="after", limit=1000, queues=("default", "other"))
    leased = {(lease.job_id, lease.version) for lease in store.exchange((), everything).leases}
    if again := leased & (recording.granted[acknowledged - 1] if acknowledged else set()):
        problems.append(f"granted again: {again}")
    return problems


def digest_of(image: Image) -> bytes:
    digest = hashlib.blake2b()
    for name, data in sorted(image.items()):
        digest.update(b"%s %d " % (name.encode(), len(data)))
        digest.update(data)
    return digest.digest()


def crash_everywhere(
    folder: Path, recording: Recording, durability: Durability, seed: int, since: int = 0
) -> Iterator[str]:
    """Open what each crash leaves; the problems found, with all that is needed to repeat them."""
    seen: set[tuple[int, bytes]] = set()
    for point, how, image in crash_images(recording.operations, seed):
        # What one sync left is what the next begins with: it is opened once.
        acknowledged = sum(at <= point for at in recording.acknowledged_at)
        if (case := (acknowledged, digest_of(image))) in seen or point < since:
            continue
        seen.add(case)
        try:
            store = open_image(folder / "image", image, durability)
        except StoreError as error:
            yield f"seed {seed}, crash at {point} ({how}): {error}"
            continue
        found = problems_of(store, recording, point, durability)
        store.close()
        for problem in found:
            yield f"seed {seed}, crash at {point} ({how}): {problem}"


@pytest.fixture
def _another_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine starts again when the recording ends, as it does after a loss of power."""
    boots = iter(["the first start"])
    monkeypatch.setattr(
        "leasehold.stores.sqlite.disk.epoch.boot_id", lambda: next(boots, "another start")
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_full_durability_keeps_every_acknowledged_call(folder: Path, seed: int) -> None:
    recording = record(folder, "full")
    assert list(crash_everywhere(folder, recording, "full", seed)) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("_another_boot")
def test_normal_durability_keeps_a_consistent_past_and_repeats_no_version(
    folder: Path, seed: int
) -> None:
    recording = record(folder, "normal")
    assert list(crash_everywhere(folder, recording, "normal", seed)) == []


def test_a_crash_while_recovering_from_a_crash_does_no_harm(folder: Path) -> None:
    recording = record(folder, "full")
    images = list(crash_images(recording.operations, SEEDS[0]))
    for point, how, image in images[:: len(images) // drawn(20)]:
        with disk_under_sqlite() as disk:
            store = open_image(folder / "image", image, "full")
            found = content(store)
            store.close()
        # Until its making is complete, a store may be found at any stage of it.
        unborn = [without_floor(each) for each in recording.unborn]
        possible = unborn if without_floor(found) in unborn else [without_floor(found)]
        seen: set[bytes] = set()
        for second_point, again, left in crash_images(disk.operations, SEED_OF_SECOND_CRASH, image):
            if (digest := digest_of(left)) in seen:
                continue
            seen.add(digest)
            store = open_image(folder / "image", left, "full")
            message = f"crash at {point} ({how}), then at {second_point} ({again})"
            assert store.check() == [], message
            assert without_floor(content(store)) in possible, message
            store.close()


def test_a_store_whose_maker_came_no_further_than_its_tables_is_completed(folder: Path) -> None:
    tables_alone(folder / "jobs.db")
    store = open_store(folder / "jobs.db")
    assert store.describe()["store_id"]
    store.close()


def test_a_store_that_was_full_until_now_repeats_no_version_once_it_is_normal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "jobs.db"
    store = open_store(path, "full")
    CALLS[0](store)
    store.close()
    at_first = {path.name: path.read_bytes()}
    granted: list[tuple[int, set[tuple[str, int]]]] = []
    with disk_under_sqlite() as disk:
        store = open_store(path, "normal")
        for _ in range(3):
            store.exchange((), LeaseRequest(worker="w"))
            granted.append((len(disk.operations), held(store)))
        store.close()
    monkeypatch.setattr("leasehold.stores.sqlite.disk.epoch.boot_id", lambda: "another start")
    for point, how, image in crash_images(disk.operations, SEEDS[0], at_first):
        store = open_image(folder / "image", image, "normal")
        store.recover()
        leases = store.exchange((), LeaseRequest(worker="w", limit=9)).leases
        store.close()
        before = [leased for at, leased in granted if at <= point]
        again = {(lease.job_id, lease.version) for lease in leases} & (before or [set()])[-1]
        assert not again, f"crash at {point} ({how}): granted again: {again}"


# -- the tests above can fail ------------------------------------------------------------------


def test_a_disk_that_lies_about_syncs_is_found_out(folder: Path) -> None:
    recording = record(folder, "full", syncs_lie=True)
    assert any(crash_everywhere(folder, recording, "full", SEEDS[0]))


def test_normal_durability_is_not_full_durability(folder: Path) -> None:
    recording = record(folder, "normal")
    made_at = recording.acknowledged_at[0]
    problems = crash_everywhere(folder, recording, "full", SEEDS[0], since=made_at)
    assert any("acknowledged calls" in problem for problem in problems)


def test_without_a_new_epoch_a_lost_grant_is_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.disk.epoch._goes_on", lambda *_: True)
    recording = record(folder, "normal")
    made_at = recording.acknowledged_at[0]
    problem = next(crash_everywhere(folder, recording, "normal", SEEDS[0], since=made_at))
    assert "granted again" in problem
