"""The records of operations; see `tables.operations`."""

from __future__ import annotations

from leasehold.stores.tables.operations import BY_ID, TableOperations
from leasehold.stores.tables.query import Query


class OperationShelf(TableOperations):
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    to_change = Query(BY_ID.columns, f"{BY_ID.rest} FOR UPDATE")
