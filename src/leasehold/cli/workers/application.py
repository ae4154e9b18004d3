"""The application behind `worker start --import`: its modules, its tasks and its TaskQueue.

A module that has a TaskQueue says by it which store is meant, and with which codec, hooks and blobs
jobs are to be run: the worker runs on that very object.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Final

import leasehold
from leasehold.aio.queue import AsyncTaskQueue
from leasehold.cli.exits import exit_for
from leasehold.cli.workers.plan import AWAY, store_name
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.errors import (
    LeaseholdError,
    StoreError,
    StoreUnavailableError,
    TaskNotImportableError,
    UnsupportedError,
)
from leasehold.queue.facade import TaskQueue
from leasehold.worker.joblines import logger

_OURS: Final = os.path.dirname(leasehold.__file__) + os.sep


def module_names(given: Iterable[str]) -> tuple[str, ...]:
    """The modules in the value of --import: `shop` or `shop:queue`."""
    return tuple(dict.fromkeys(name.partition(":")[0] for name in given))


def queues_in(given: Iterable[str]) -> dict[str, TaskQueue]:
    """The TaskQueues of these modules, by where they stand; of `shop:queue` only that one.

    Raises TaskNotImportableError; its cause is the error of the import.
    """
    found: dict[str, TaskQueue] = {}
    for name in given:
        module_name, _, attribute = name.partition(":")
        values = _values(module_name)
        if attribute:
            queue = _queue_behind(values.get(attribute))
            if queue is None:
                known = (
                    f"{module_name}:{place}" for place in values if _queue_behind(values[place])
                )
                near = did_you_mean(name, known)
                raise TaskNotImportableError(f"there is no TaskQueue {name!r}{near}")
            found[name] = queue
            continue
        for place, value in values.items():
            queue = _queue_behind(value)
            if queue is not None and queue not in found.values():
                found[f"{module_name}:{place}"] = queue
    return found


def store_of(queues: dict[str, TaskQueue]) -> str | None:
    """The store that an application's queues are in, for a worker that was told none.

    Raises UnsupportedError if there is no saying which, or if no other process can reach it.
    """
    urls = {queue.url: place for place, queue in queues.items() if queue.url is not None}
    if len({store_name(url) for url in urls}) > 1:
        raise UnsupportedError(
            f"the queues {listed(urls.values())} are in different stores: name one of them, as "
            f"in --import {next(iter(urls.values()))}, or the store, with --store"
        )
    url, place = next(iter(urls.items()), (None, ""))
    if url is not None and url.startswith("memory:"):
        raise UnsupportedError(
            f"the queue {place} is in memory, where no other process can reach it: give it a file, "
            "or run its worker in its own process, with run_worker()"
        )
    return url


def check_same_store(queues: dict[str, TaskQueue], store_url: str) -> None:
    """Raise UnsupportedError if a queue is in another store than the one to be served.

    A queue in memory belongs to its own process: it only brings the tasks.
    """
    for place, queue in queues.items():
        if queue.url is None or queue.url.startswith("memory:"):
            continue
        if store_name(queue.url) != store_name(store_url):
            raise UnsupportedError(
                f"the queue {place} is in the store {store_name(queue.url)}, but this worker "
                f"would serve {store_name(store_url)}: leave out --store, import another module, "
                "or let it take its store from the variable LEASEHOLD_STORE (docs/service.md)"
            )


def reason_to_wait(error: LeaseholdError) -> str | None:
    """Why the store may be available later, if that is all that is wrong; else None."""
    is_imported = isinstance(error, TaskNotImportableError)
    source = error.__cause__ if is_imported else error
    if isinstance(source, StoreUnavailableError) and source.is_transient:
        return str(source)
    return None


def code_for(error: LeaseholdError) -> int:
    """Log why the application cannot be served; answers the exit code for it.

    An error of our own says enough. Of one in the application's code, the traceback says more.
    """
    cause = error.__cause__
    is_ours = isinstance(error, StoreError) or isinstance(cause, LeaseholdError)
    logger.error("%s", error, exc_info=None if is_ours else cause)
    if reason_to_wait(error) is not None:
        return AWAY
    return exit_for(cause if isinstance(cause, LeaseholdError) else error)


def _values(module: str) -> dict[str, object]:
    try:
        return dict(vars(importlib.import_module(module)))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise TaskNotImportableError(f"the module {module!r} cannot be imported") from _own(
                error
            )
        name = module.removesuffix(".py").replace("/", ".")
        hint = f"; write --import {name}" if module.endswith(".py") else ""
        here = [path.removesuffix(".py") for path in os.listdir() if path.endswith(".py")]
        hint = hint or did_you_mean(module, here)
        raise TaskNotImportableError(
            f"there is no module {module!r} in {os.getcwd()} or among the installed ones{hint}"
        ) from None
    except LeaseholdError as error:
        raise TaskNotImportableError(
            f"the module {module!r} cannot be imported: {error}{_place_of(error)}"
        ) from error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import runs anybody's code.
        raise TaskNotImportableError(f"the module {module!r} cannot be imported") from _own(error)


def _own(error: BaseException) -> BaseException:
    """The error of an import without the frames of the import machinery before it."""
    frames = error.__traceback__
    while frames is not None and _imports(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    return error.with_traceback(frames)


def _place_of(error: BaseException) -> str:
    """The last line of the application's own code on the way to an error of ours."""
    place, frames = "", error.__traceback__
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file.startswith(_OURS) and not _imports(file):
            break
        if not _imports(file):
            shown = os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file
            place = f" ({shown}, line {frames.tb_lineno})"
        frames = frames.tb_next
    return place


def _imports(file: str) -> bool:
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")


def _queue_behind(value: object) -> TaskQueue | None:
    if isinstance(value, AsyncTaskQueue):
        return value.queue
    return value if isinstance(value, TaskQueue) else None
