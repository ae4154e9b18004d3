"""Moving everything from one store to another: which step comes next, and when it is refused.

Both stores carry a *seal* meanwhile (`core.model.seals`), so at any moment at most one of them
takes writes: first the source, then neither, then the target. Under the seal nothing changes, so
rows are copied in the order of their keys, a few hundred per write, and each write records its
progress with the rows. A second run of a killed move continues from there; no row is written twice.

Every step names the seal that it expects. So of two runs at the same time only one continues: a run
that resumes a move puts its id into both seals, and the next step of the other run is refused.

When all tables have been copied, both stores are read again, and each table must have the same rows
and the same checksum in both. Only then does the source's seal become final, and the target take
over its identity and its counters. The target never grants a lease version that the source has
granted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from leasehold.core.model.phrases import counted, listed
from leasehold.core.model.records import SILENT_SECONDS, WorkerInfo
from leasehold.core.model.seals import Key, Seal, check_unchanged
from leasehold.env import Env
from leasehold.errors import (
    InvalidTransitionError,
    LeaseholdError,
    StoreError,
    StoreMovedError,
    StoreVersionError,
    UnsupportedError,
)

Cell = int | float | str | bytes | None
Row = tuple[Cell, ...]
Running = Literal["refuse", "copy"]
Progress = Callable[[str, str, int], None]
"""Called with the phase ("copy" or "verify"), the table, and how many of its rows are done."""

ROWS_AT_ONCE: Final = 500
"""How many rows are in memory at once; a row may hold a payload of 256 KiB."""
NOT_CARRIED: Final = {("running", "life"): 0}
"""Cells that mean nothing in another store, with their replacements: the number of a lock that
proves a worker of the source to be alive.
"""


class Table(NamedTuple):
    """A table whose rows are all moved."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The columns that identify its rows and define their order."""

    def key_of(self, row: Row) -> Key:
        """The key of a row."""
        found = (row[self.columns.index(name)] for name in self.key)
        return tuple(part for part in found if isinstance(part, int | str))


class StoreCounters(msgspec.Struct, frozen=True, kw_only=True):
    """A store's counters and identity, which no row holds."""

    store_id: str
    signing_key: str | None
    clock: int
    open_minute: int
    version: int
    """No lease version above this was ever granted."""
    next_seq: int
    audit: int
    """The highest number of an audit record that was ever used."""
    change: int
    """The highest number of the change feed that was ever used."""


class RowStore(Protocol):
    """A store as its rows, for moving all of them. Only one process uses it at a time."""

    @property
    def shown(self) -> str:
        """Where the store is, for messages."""

    def store_id(self) -> str:
        """The id that a store shares with the stores that took its place."""

    def tables(self) -> list[Table]:
        """The tables to move, by name, as the database itself describes them."""

    def tables_of_others(self) -> list[str]:
        """The tables beside them that applications made, and that are not moved."""

    def rows(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        """Rows of a table in the order of their keys, after a given key."""

    def fitted(self, rows: list[Row]) -> list[Row]:
        """Rows of another store, converted for this one."""

    def seal(self) -> Seal | None: ...

    def change_seal(
        self, found: Seal | None, seal: Seal | None, *, unless_running: bool = False
    ) -> int:
        """Replace the seal that was found, and make every process notice; returns how many jobs
        run.

        With `unless_running` nothing changes while any job runs. This method and the following ones
        raise StoreMovedError if the seal has changed since (`seals.check_unchanged`).
        """

    def add(self, table: Table, rows: Sequence[Row], found: Seal, seal: Seal) -> None:
        """Add rows and replace the seal in one write."""

    def reopen(self, found: Seal, actor: str) -> None:
        """Lift the seal in one write, which is audited.

        If the move was completed, lease versions are raised as for a restored backup.
        """

    def counters(self) -> StoreCounters: ...

    def take_over(self, counters: StoreCounters, seal: Seal, actor: str) -> None:
        """Raise its counters, become the other store, and lift the seal, in one write."""


@runtime_checkable
class MovableStore(Protocol):
    """A store that can be moved."""

    def row_store(self) -> RowStore: ...
    def now(self) -> datetime: ...
    def workers(self) -> list[WorkerInfo]: ...


class MovedTable(msgspec.Struct, frozen=True):
    """A table that is identical in both stores."""

    name: str
    rows: int
    checksum: str


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a completed move."""

    source: str
    target: str
    running: int
    """How many jobs were running in the source: they run again in the target when their leases
    end."""
    blobs: int
    """How many large payloads and results are in the target's own blob store."""
    tables: list[MovedTable]
    """Empty if an earlier run had completed this move."""
    not_moved: list[str] = []
    """Tables that applications have in the source, which are for them to copy."""


def movable(store: object) -> MovableStore:
    """The store as a movable one; raises UnsupportedError if it cannot be moved."""
    if isinstance(store, MovableStore):
        return store
    raise UnsupportedError(
        f"{store} cannot be moved: give a SQLite file or a postgresql:// URL, not a service"
    )


def move(
    source_store: object,
    target_store: object,
    *,
    env: Env,
    actor: str,
    running: Running = "refuse",
    progress: Progress = lambda *_: None,
    besides: Callable[[], int] = lambda: 0,
) -> Moved:
    """Move everything, or continue a move that was cut short.

    `besides` moves the data kept outside the rows, before the target takes the source's place, and
    returns the number of blobs; a run that continues the move may call it again.
    """
    origin = movable(source_store)
    source, target = origin.row_store(), movable(target_store).row_store()
    tables = _common_tables(source, target)
    found, run = source.seal(), env.new_id()
    if found is not None and _was_completed(source, target, found):
        return Moved(source=source.shown, target=target.shown, running=0, blobs=0, tables=[])
    if found is None:
        _check_empty(source, target, tables)
        if running == "refuse":
            _refuse_live_workers(origin)
        seal = Seal(move=run, other=target.shown, is_target=False, run=run)
        held = _seal_source(source, seal, running)
        try:
            filled = _seal_target(source, target, tables, seal)
        except LeaseholdError:
            # Another process was quicker with the target: restore the source.
            source.change_seal(seal, None)
            raise
    else:
        _check_goes_on(source, target, found)
        seal = replace(found, run=run)
        # The target first: if another run is filling it, this step fails before anything else is
        # touched.
        filled = _seal_target(source, target, tables, seal)
        held = source.change_seal(found, seal)
    filled = _copy(source, target, tables, filled, progress)
    moved = _verified(source, target, tables, filled, progress)
    blobs = besides()
    source.change_seal(seal, replace(seal, is_complete=True))
    target.take_over(source.counters(), filled, actor)
    return Moved(
        source=source.shown,
        target=target.shown,
        running=held,
        blobs=blobs,
        tables=moved,
        not_moved=source.tables_of_others(),
    )


def reopen(store: object, *, actor: str, force: bool = False) -> Seal | None:
    """Accept writes again in a store that was to be moved; returns the seal that it had.

    If the move was completed, the other store has taken its place and keeps running. Then `force`
    is required, and no lease version that the other store grants is granted here.
    """
    rows = movable(store).row_store()
    seal = rows.seal()
    if seal is not None and seal.is_target:
        raise InvalidTransitionError(
            f"{rows.shown} holds only part of {seal.other}: finish the move, or delete this one"
        )
    if seal is not None and seal.is_complete and not force:
        raise InvalidTransitionError(
            f"{rows.shown} was moved to {seal.other}, which replaced it: changes made there "
            "since are unknown here, and jobs would run in both. To go back, move that store "
            "into a new one; or, if it is no longer in use, delete it and pass --force"
        )
    if seal is not None:
        rows.reopen(seal, actor)
    return seal


# -- the beginning ---------------------------------------------------------------------------------


def _common_tables(source: RowStore, target: RowStore) -> list[Table]:
    """The tables, with the columns in the source's order."""
    tables = source.tables()
    if [_shape(table) for table in tables] != [_shape(table) for table in target.tables()]:
        raise StoreVersionError(
            f"{source.shown} and {target.shown} do not have the same tables: open both with the "
            "same release of Leasehold"
        )
    return tables


def _shape(table: Table) -> tuple[str, frozenset[str], tuple[str, ...]]:
    return table.name, frozenset(table.columns), table.key


def _check_empty(source: RowStore, target: RowStore, tables: Sequence[Table]) -> None:
    if source.store_id() == target.store_id():
        raise InvalidTransitionError(
            f"{source.shown} and {target.shown} are the same store, or one replaced the other"
        )
    seal = target.seal()
    if seal is not None:
        raise seal.refusal(target.shown)
    used = [table.name for table in tables if target.rows(table, None, 1)]
    if used:
        raise InvalidTransitionError(
            f"{target.shown} is in use (it has rows in {listed(used)}): move to an empty store"
        )


def _refuse_live_workers(store: MovableStore) -> None:
    silent = store.now() - timedelta(seconds=SILENT_SECONDS)
    live = [
        f"{worker.id} (pid {worker.pid} on {worker.host})"
        for worker in store.workers()
        if not worker.is_consumer and worker.heartbeat_at > silent
    ]
    if live:
        raise InvalidTransitionError(
            f"workers are running on the source: stop {listed(live)} first. (With --running copy "
            f"they learn that the store has moved, and their jobs run again in the target)"
        )


def _seal_source(source: RowStore, seal: Seal, running: Running) -> int:
    """Seal the source against writes; returns how many of its jobs are running."""
    held = source.change_seal(None, seal, unless_running=running == "refuse")
    if held and running == "refuse":
        raise InvalidTransitionError(
            f"the source has {counted(held, 'running job')}: wait until they end, or until their "
            "leases expire and `queuectl sweep` takes them back. (With --running copy they are "
            "moved as they are, and run again in the target when their leases end)"
        )
    return held


def _was_completed(source: RowStore, target: RowStore, seal: Seal) -> bool:
    """Whether an earlier run has completed this very move."""
    is_same = seal.is_complete and not seal.is_target and seal.other == target.shown
    return is_same and target.seal() is None and source.store_id() == target.store_id()


def _check_goes_on(source: RowStore, target: RowStore, seal: Seal) -> None:
    """Raise unless this run can continue a move that was cut short."""
    filled = target.seal()
    # Complete, with the target still sealed: the move was cut short between its last two steps.
    is_over = seal.is_complete and (filled is None or filled.move != seal.move)
    if seal.is_target or is_over:
        raise seal.refusal(source.shown)
    if seal.other != target.shown:
        raise StoreMovedError(
            f"{source.shown} is being moved to {seal.other}, not to {target.shown}: finish "
            f"that move, or abandon it with `queuectl migrate-store --reopen {source.shown}`"
        )


def _seal_target(source: RowStore, target: RowStore, tables: Sequence[Table], seal: Seal) -> Seal:
    """Seal the target; returns its seal, which says how far it was already filled."""
    found = target.seal()
    if found is not None and found.move == seal.move:
        made = replace(found, run=seal.run)
    else:
        _check_empty(source, target, tables)
        made = Seal(move=seal.move, other=source.shown, is_target=True, run=seal.run)
    target.change_seal(found, made)
    return made


# -- the rows --------------------------------------------------------------------------------------


def _copy(
    source: RowStore, target: RowStore, tables: Sequence[Table], seal: Seal, progress: Progress
) -> Seal:
    """Copy the rows; returns the seal that the target has at the end."""
    for table in tables:
        if seal.table is not None and table.name < seal.table:
            continue
        after = seal.after if table.name == seal.table else None
        done = 0
        for rows in _pages(source, table, after):
            reached = replace(seal, table=table.name, after=table.key_of(rows[-1]))
            try:
                target.add(table, target.fitted(rows), seal, reached)
            except StoreMovedError:
                raise
            except StoreError as error:
                error.add_note(
                    f"while rows of {table.name!r} after {after} were copied; if one of them is "
                    "damaged, `queuectl check` on the source names it"
                )
                raise
            seal = reached
            done += len(rows)
            progress("copy", table.name, done)
    return seal


def _pages(store: RowStore, table: Table, after: Key | None = None) -> Iterator[list[Row]]:
    replaced = [
        (table.columns.index(column), cell)
        for (name, column), cell in NOT_CARRIED.items()
        if name == table.name
    ]
    while rows := store.rows(table, after, ROWS_AT_ONCE):
        for place, cell in replaced:
            rows = [(*row[:place], cell, *row[place + 1 :]) for row in rows]
        yield rows
        after = table.key_of(rows[-1])


def _verified(
    source: RowStore, target: RowStore, tables: Sequence[Table], seal: Seal, progress: Progress
) -> list[MovedTable]:
    moved: list[MovedTable] = []
    for table in tables:
        theirs = _sum(table.name, (target.fitted(rows) for rows in _pages(source, table)))
        ours = _sum(table.name, _pages(target, table))
        if ours != theirs:
            # If another run has completed the move meanwhile, the target may have changed since.
            check_unchanged(target.seal(), seal, target.shown)
            raise StoreError(
                f"table {table.name!r} has {theirs.rows} rows with checksum {theirs.checksum} in "
                f"{source.shown}, and {ours.rows} with {ours.checksum} in {target.shown}: the move "
                "was not completed. Delete the target, abandon the move with `queuectl "
                "migrate-store --reopen`, and start over"
            )
        progress("verify", table.name, ours.rows)
        moved.append(ours)
    return moved


def _sum(name: str, pages: Iterator[list[Row]]) -> MovedTable:
    encoder, digest, count = msgspec.msgpack.Encoder(), hashlib.sha256(), 0
    for rows in pages:
        count += len(rows)
        for row in rows:
            digest.update(encoder.encode(row))
    return MovedTable(name, count, digest.hexdigest())
