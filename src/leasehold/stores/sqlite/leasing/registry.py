"""The registry of workers, whose lives are locks on files; see `tables.recover`."""

from __future__ import annotations

from functools import partial
from typing import Final

from leasehold.core.model.lives import Life
from leasehold.core.model.records import WorkerInfo
from leasehold.stores.sqlite.disk.failures import of_files
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.tables.recover import TableRegistry

LIFE_BITS: Final = 48
"""So many bits of chance tell the lives of one name apart."""


class Registry(TableRegistry):
    """The registry of a store's workers."""

    add = "INSERT OR REPLACE INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, $8, $9)"
    forget = "DELETE FROM worker WHERE id = ? AND life = ?"
    _database: Database

    def register(self, info: WorkerInfo) -> LockedLife:
        database = self._database
        life = Life(info.id, database.env.random.getrandbits(LIFE_BITS) + 1)
        try:
            locked = LockedLife(database.files.workers, life, partial(self._leave, life))
        except OSError as error:
            raise of_files(error, database.files.database) from error
        try:
            self._enter(info, life)
        except BaseException:
            locked.let_go()
            raise
        database.lives.begin(life)
        return locked
