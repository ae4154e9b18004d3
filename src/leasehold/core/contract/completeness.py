"""Whether a third-party store has every method of the contract."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.phrases import listed
from leasehold.core.model.text import shown
from leasehold.errors import UnsupportedError


def missing_methods(store: object) -> list[str]:
    """The methods of the contract that a store lacks, or only inherits from the contract itself.

    A class that inherits from the protocol gets all of its methods, which do nothing.
    """
    return [
        name
        for name in dir(Store)
        if not name.startswith("_")
        and (
            getattr(store, name, None) is None
            or getattr(type(store), name, None) is getattr(Store, name)
        )
    ]


def whole_store(store: Store | None) -> Store:
    """Return the store; raises UnsupportedError, which names the missing methods, if it is
    incomplete.

    >>> whole_store(None)
    Traceback (most recent call last):
    TypeError: url must be a path, a URL or a store, not None
    """
    if store is None or isinstance(store, int | float | bytes | list | tuple | dict):
        raise TypeError(f"url must be a path, a URL or a store, not {shown(store)}")
    missing = missing_methods(store)
    if missing:
        raise UnsupportedError(
            f"{type(store).__name__} does not implement the store contract: it lacks "
            f"{listed(missing)}. leasehold.core.contract.store describes each of them"
        )
    return store
