"""The arguments of a TaskQueue, as its parts need them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from leasehold.blobs.blobs import Blobs
from leasehold.blobs.place import BlobPlace
from leasehold.core.contract.blob_calls import BlobCarrier
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.durations import given_seconds
from leasehold.core.model.job import DEFAULT_QUEUE
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.queue_config import check_queue_name
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.text import plain_text
from leasehold.env import Env


def names(given_names: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several."""
    several = (given_names,) if isinstance(given_names, str) else given_names
    return tuple(plain_text(name) for name in several)


def checked_queues(queues: str | Iterable[str]) -> tuple[str, ...]:
    """The names of the queues to lease from; raises InvalidQueueError for one that none can have.

    A worker or consumer is registered for them, so they are checked before anything remembers them.
    """
    several = names(queues)
    for name in several:
        check_queue_name(name)
    return several


def queue_names(queues: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of the queues to serve; a string that looks like a list of them is refused.

    A queue may have a comma in its name: inside a list it is accepted as it is.

    >>> queue_names("mail,default")
    Traceback (most recent call last):
    ValueError: queues must be a list of names: did you mean ["mail", "default"]?
    """
    if isinstance(queues, str) and "," in queues:
        several = ", ".join(f'"{name}"' for each in queues.split(",") if (name := each.strip()))
        raise ValueError(f"queues must be a list of names: did you mean [{several}]?")
    given_names = checked.texts_or_none("queues", queues)
    return None if given_names is None else checked_queues(given_names)


OUTPUT_FOLDER: Final = "leasehold-output"
"""Relative to the folder in which a worker was started."""


def default_queue(queues: Sequence[str]) -> str:
    """The queue of jobs that name none: the first one given that is a name.

    >>> default_queue(["mail", "work"]), default_queue("*")
    ('mail', 'default')
    """
    return next((name for name in queues if name != ALL_QUEUES), DEFAULT_QUEUE)


def given(**options: Any) -> Mapping[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def folder_for_output(store: Store, path: str | os.PathLike[str] | None) -> str:
    """The default folder for the output of commands.

    It is beside the database or, if that is on a server, where the worker was started.
    """
    if path is not None:
        return os.fspath(path)
    folder = own_output_folder(store)
    if folder is None:
        raise ValueError("this store has no folder: allow_commands needs an output_dir beside it")
    return folder


def own_output_folder(store: Store) -> str | None:
    """Where a store's workers keep the output of commands by default; None for one in memory."""
    about = store.describe()
    if about["kind"] == "sqlite":
        return f"{about['path']}-output"
    return None if about["kind"] == "memory" else OUTPUT_FOLDER


def open_blobs(store: Store, place: BlobPlace, env: Env, *, close: bool) -> Blobs | None:
    """The blob store for large payloads; if it cannot be opened and `close` is set, closes the
    store.
    """
    if place is False:
        return None
    try:
        if place is None and isinstance(store, BlobCarrier):
            from leasehold.blobs.carried import CarriedBlobs

            return CarriedBlobs(store, store, env=env)
        return Blobs(store, place, env=env)
    except BaseException:
        # Only this function has a reference to a store that was just opened.
        if close:
            store.close()
        raise


def given_durations(**durations: Any) -> dict[str, Any]:
    """The durations that are not None, in seconds; "auto" is kept."""
    return {
        name: value if value == "auto" else _above_zero(name, given_seconds(name, value))
        for name, value in durations.items()
        if value is not None
    }


def _above_zero(name: str, seconds: float) -> float:
    if not (0 < seconds <= SECONDS_MAX or (seconds == 0 and name in _MAY_BE_ZERO)):
        raise ValueError(f"{name} must be above 0 and at most ten years in seconds, not {seconds}")
    return seconds


_MAY_BE_ZERO: Final = frozenset({"grace_seconds"})
