"""The verbs that every store on tables has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.figures import TableFigureVerbs
from leasehold.stores.tables.looking import TableLookingVerbs
from leasehold.stores.tables.orders import TablePeopleVerbs
from leasehold.stores.tables.recover import TableRecoveryVerbs
from leasehold.stores.tables.removing import KeepingVerbs
from leasehold.stores.tables.schedules import TableScheduleVerbs
from leasehold.stores.tables.settings import TableSettingVerbs
from leasehold.stores.tables.tokens import TableTokenVerbs
from leasehold.stores.verbs.holding import HoldingVerbs

T = TypeVar("T")


class TableStore(
    HoldingVerbs,
    TableRecoveryVerbs,
    TableLookingVerbs,
    TablePeopleVerbs,
    TableFigureVerbs,
    TableScheduleVerbs,
    TableSettingVerbs,
    TableTokenVerbs,
    KeepingVerbs,
):
    """A store supplies its own classes and functions as attributes."""

    _database: TableDatabase

    def _write(self, operation: Callable[[Any], T]) -> T:
        return self._database.write(operation)

    def _look(self, operation: Callable[[Any], T]) -> T:
        return self._database.look(operation)

    def _now(self, look: Any) -> int:
        return self._database.now(look)

    def _walk(self, operation: Callable[[Any], T]) -> T:
        with self._database.read() as db:
            return operation(db)
