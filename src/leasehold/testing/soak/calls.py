"""Calls: a simulated program's requests, as data that can be sent to any store, twice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.changes import Change
from leasehold.core.model.lease import Settlement
from leasehold.core.model.retention import COUNTED
from leasehold.errors import LeaseholdError, LeaseLostError, UnsupportedError

SUBMIT_WITHIN = "submit within a transaction"
COMPLETE_WITHIN = "complete within a transaction"
CLEAN_UP = "clean up"
REPEAT = "repeat a request"
FOLLOW = "follow"
STALE = "the holder was stale"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the contract: the method and its arguments, all of them by name."""

    method: str
    arguments: Mapping[str, Any]
    request_id: str | None = None
    """With one, a submit or an exchange may be sent again, and is carried out once."""

    def __str__(self) -> str:
        given = ", ".join(f"{name}={brief(value)}" for name, value in self.arguments.items())
        under = "" if self.request_id is None else f" under {self.request_id}"
        return f"{self.method}({given}){under}"

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)


class Repeated(msgspec.Struct, frozen=True):
    """The answer to a request that had been carried out before."""

    answer: Any


class Followed(msgspec.Struct, frozen=True):
    """All changes that the feed told since it was read last."""

    changes: list[Change]
    cursor: str
    gap: bool = False


class Described(msgspec.Struct, frozen=True):
    """A store's own description."""

    description: Mapping[str, Any]


_fields = cache(msgspec.structs.fields)
"""The fields of a record's type: to work out their types anew for every value took long."""


def brief(value: Any) -> str:
    """A value for people: records without fields that have their default."""
    if isinstance(value, msgspec.Struct):
        said = [
            f"{field.name}={brief(getattr(value, field.name))}"
            for field in _fields(type(value))
            if getattr(value, field.name) != field.default
        ]
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(brief, value))}]"
    if isinstance(value, datetime):
        return f"{value:%d %H:%M:%S}"
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    return str(value) if isinstance(value, StrEnum) else repr(value)


def call(method: str, **arguments: Any) -> Call:
    return Call(method, arguments)


def carry_out(store: Store, asked: Call) -> Any:
    """The store's answer; an error that it raises on purpose is an answer too."""
    try:
        if asked.method == SUBMIT_WITHIN:
            return _submit_within(store, **asked.arguments)
        if asked.method == COMPLETE_WITHIN:
            return _complete_within(store, **asked.arguments)
        if asked.method == CLEAN_UP:
            return _clean_up(store, **asked.arguments)
        if asked.method == REPEAT:
            return Repeated(carry_out(store, asked.arguments["first"]))
        if asked.method == FOLLOW:
            return _follow(store, **asked.arguments)
        if asked.method == "describe":
            return Described(store.describe())
        if asked.request_id is not None:
            once = getattr(store, f"{asked.method}_once")
            return once(asked.request_id, **asked.arguments)
        return getattr(store, asked.method)(**asked.arguments)
    except LeaseholdError as error:
        return error


# A store without transactions of the application's own does the committed part in one call, and
# nothing of the rolled-back part: the answers and the jobs must be the same.


def _submit_within(store: Store, *, drafts: Any, partial: bool, commit: bool) -> Any:
    try:
        connection = local_part(store, "a connection").connect()
    except UnsupportedError:
        return store.submit(drafts, partial=partial) if commit else None
    try:
        with suppress(_RolledBackError), connection.transaction():
            answer = _submitted(store, connection, drafts, partial=partial)
            _roll_back_unless(commit)
            return answer
        return None
    finally:
        connection.close()


def _submitted(store: Store, connection: Connection, drafts: Any, *, partial: bool) -> Any:
    try:
        return local_part(store, "a transaction").submit_within(connection, drafts, partial=partial)
    except LeaseholdError as error:
        # It undoes this submit alone; the transaction goes on without it.
        return error


def _roll_back_unless(commit: bool) -> None:
    if not commit:
        raise _RolledBackError


def _complete_within(store: Store, *, settlement: Settlement, commit: bool) -> Any:
    try:
        transaction = local_part(store, "a transaction").open_transaction(
            settlement.job_id, settlement.version
        )
    except UnsupportedError:
        held = store.get(settlement.job_id)
        if held is None or held.worker is None or held.lease_version != settlement.version:
            return STALE
        return store.exchange([settlement]).settled[0] if commit else None
    except LeaseLostError:
        # A transaction that was refused leaves nothing behind, so nothing is told either.
        return STALE
    try:
        return transaction.complete(settlement) if commit else None
    finally:
        transaction.roll_back()


def _clean_up(store: Store, **arguments: Any) -> Any:
    """A whole clean-up: how many writes it takes, and in which order, is a store's own business."""
    done = store.prune(**arguments)
    more = done.more
    while more:
        report = store.prune(**arguments, run=done.run)
        more = report.more
        counts = {name: getattr(done, name) + getattr(report, name) for name in COUNTED}
        done = msgspec.structs.replace(done, more=more, **counts)
    return done


def _follow(store: Store, *, cursor: str | None, limit: int) -> Followed:
    """Read the change feed to its end, page by page."""
    page = store.changes(cursor, limit=limit)
    found = list(page.changes)
    while page.changes:
        page = store.changes(page.cursor, limit=limit)
        found += page.changes
    return Followed(found, page.cursor, page.gap)


class _RolledBackError(Exception):
    """Ends a transaction of which nothing is to be kept."""
