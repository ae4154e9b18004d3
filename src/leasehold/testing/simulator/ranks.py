"""Lease versions of different stores, made comparable.

A version of a job's lease is above those before it, and what it is else is the store's own affair:
some count for each job, others for all of them together. In a comparison the leases of a job are
numbered as they come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from leasehold.core.model.lease import Renewal, Settlement

_VERSIONS: Final = frozenset({"version", "lease_version"})
_NEVER_GRANTED: Final = 1 << 40
_NAMED: Final = re.compile(r"\b(lease|version|latest is) (\d+)\b")
_JOB: Final = re.compile(r"\bjob ([^\s:,.]+)")


class Ranks:
    """The versions that one store has granted, by job, in their order."""

    def __init__(self) -> None:
        self._granted: dict[str, list[int]] = {}

    def learn(self, answer: Any) -> None:
        """Take note of the leases in the answer to an exchange, as plain data."""
        if isinstance(answer, dict):
            for lease in answer.get("leases", ()):
                granted = self._granted.setdefault(lease["job_id"], [])
                if lease["version"] not in granted:
                    granted.append(lease["version"])

    def rank(self, job_id: str | None, version: int) -> int:
        """Which lease of its job it is, from 1; a version that was not granted stays as it is."""
        granted = self._granted.get(job_id or "", [])
        return granted.index(version) + 1 if version in granted else version

    def version(self, job_id: str, rank: int) -> int:
        """The version of that lease of a job; one that no store grants, if there is none."""
        granted = self._granted.get(job_id, [])
        return granted[rank - 1] if 0 < rank <= len(granted) else _NEVER_GRANTED + rank

    def ranked(self, answer: Any, job_id: str | None = None) -> Any:
        """Plain data, perhaps about one job, with ranks in the place of versions."""
        if isinstance(answer, dict):
            settled = answer.get("settled")
            about = settled if isinstance(settled, dict) else answer
            job_id = about.get("job_id", about.get("id", job_id))
            return {
                name: self.rank(job_id, each)
                if name in _VERSIONS and isinstance(each, int)
                else self.ranked(each, job_id)
                for name, each in answer.items()
            }
        if isinstance(answer, list | tuple):
            return [self.ranked(each, job_id) for each in answer]
        if isinstance(answer, str):
            named = _JOB.search(answer)
            whose = job_id if named is None else named[1]
            return _NAMED.sub(lambda at: f"{at[1]} {self.rank(whose, int(at[2]))}", answer)
        return answer


def asked_of(arguments: Mapping[str, Any], logged: Ranks, own: Ranks) -> dict[str, Any]:
    """The arguments of a call to one store, for another one."""

    def own_version(job_id: str, version: int) -> int:
        return own.version(job_id, logged.rank(job_id, version))

    def of(each: Settlement | Renewal) -> Settlement | Renewal:
        return msgspec.structs.replace(each, version=own_version(each.job_id, each.version))

    given = dict(arguments)
    for name in ("settlements", "renewals"):
        if name in given:
            given[name] = [of(each) for each in given[name]]
    if "version" in given:
        given["version"] = own_version(given["job_id"], given["version"])
    return given
