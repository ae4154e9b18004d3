"""Which workers are meant: a pid, a worker's id, or enough of its beginning or its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from leasehold.cli.jobref import AmbiguousIdError
from leasehold.cli.layout import ELLIPSIS
from leasehold.cli.workers.pidfile import PidFile
from leasehold.core.model.phrases import listed
from leasehold.errors import WorkerNotFoundError

PART_LENGTH_MIN: Final = 4


class Meant(NamedTuple):
    """The workers that somebody named."""

    here: list[PidFile]
    """Processes of this machine."""
    elsewhere: list[str]
    """Ids of workers that have no process here."""


def meant(names: Iterable[str], live: Sequence[PidFile], registered: Iterable[str]) -> Meant:
    """The workers of these names, each once.

    Raises WorkerNotFoundError for a name that fits none, AmbiguousIdError for a name that fits
    several.
    """
    by_id = {file.record.worker_id: file for file in live if file.record.worker_id is not None}
    by_pid = {str(file.record.pid): file for file in live}
    known = sorted({*by_id, *registered})
    here: list[PidFile] = []
    elsewhere: list[str] = []
    for name in dict.fromkeys(names):
        if name in by_pid:
            here.append(by_pid[name])
            continue
        worker_id = _the_only_one(name, known)
        if worker_id in by_id:
            here.append(by_id[worker_id])
        else:
            elsewhere.append(worker_id)
    return Meant(here, elsewhere)


def _the_only_one(text: str, known: Sequence[str]) -> str:
    """The id that equals this text, or else the only one that begins or ends with it.

    An ellipsis stands for the part that a narrow table leaves out.

    >>> _the_only_one("web…c3d4", ["web-1-a1b2c3d4", "web-1-e5f6a7b8"])
    'web-1-a1b2c3d4'
    """
    found = [each for each in known if each == text] or [
        each for each in known if _may_be(text, each)
    ]
    if not found:
        raise WorkerNotFoundError(f"this store has no worker {text}: see `worker status`")
    if len(found) > 1:
        names = listed(found)
        raise AmbiguousIdError(
            f"several workers begin or end with {text!r}: {names}; type more of the one you mean"
        )
    return found[0]


def _may_be(text: str, worker_id: str) -> bool:
    head, cut, tail = text.partition(ELLIPSIS)
    if len(head) + len(tail) < PART_LENGTH_MIN:
        return False
    if cut:
        return worker_id.startswith(head) and worker_id.endswith(tail)
    return worker_id.startswith(text) or worker_id.endswith(text)
