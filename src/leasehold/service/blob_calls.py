"""Blobs for remote stores: clients reach them through here, or by signed URLs.

A caller reads the blobs of jobs that they may see, and writes only new ones: payloads as a
producer, results under a lease, payloads of schedules as an operator. The clean-up deletes blobs
that no row ends up naming.
"""

from __future__ import annotations

from typing import Any, Final

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.blob_calls import CARRIED_BYTES_MAX, BlobFetched, BlobPut
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BlobKey, OwnerKind, decode_reference, parse_key
from leasehold.core.model.limits import NAME_LENGTH_MAX
from leasehold.core.model.phrases import listed
from leasehold.core.model.refusals import no_job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.tokens import Role
from leasehold.core.rules.blob_retention import references_of
from leasehold.errors import BlobUnavailableError, InvalidRequestError, PayloadTooLargeError
from leasehold.service.caller import Caller
from leasehold.service.lease_secret import LeaseSecrets

BLOB_VERBS: Final = frozenset({"put_blob", "get_blob"})
_WRITERS: Final[dict[OwnerKind, tuple[Role, ...]]] = {
    "payload": ("producer",),
    "result": ("consumer",),
    "schedule": ("operator",),
}


class BlobCalls:
    """Carries out calls about blobs."""

    def __init__(self, store: Store, secrets: LeaseSecrets, blobs: Blobs | None) -> None:
        self._store = store
        self._secrets = secrets
        self._blobs = blobs

    def call(
        self, verb: str, caller: Caller, asked: dict[str, Any], secrets: list[str]
    ) -> BlobPut | BlobFetched:
        """Carry out one of BLOB_VERBS."""
        if self._blobs is None:
            raise BlobUnavailableError("this service was started without blobs")
        if verb == "get_blob":
            return self._get(self._blobs, caller, asked["document"])
        self._check_put(caller, asked, secrets)
        data: bytes | None = asked.pop("data")
        if data is not None:
            del asked["size"], asked["sha256"]
            return BlobPut(self._blobs.put(data=data, **asked))
        signed = self._blobs.sign_put(**asked)
        return BlobPut() if signed is None else BlobPut(*signed)

    def _check_put(self, caller: Caller, asked: dict[str, Any], secrets: list[str]) -> None:
        roles = _WRITERS.get(asked["kind"])
        if roles is None:
            raise InvalidRequestError(
                f"a blob is a {listed(_WRITERS, 'or')}, not {asked['kind']!r}"
            )
        caller.check_role(roles)
        if not 0 < len(asked["owner"]) <= NAME_LENGTH_MAX:
            raise InvalidRequestError(f"a job's id has 1 to {NAME_LENGTH_MAX} characters")
        if asked["kind"] == "result":
            self._secrets.check(asked["owner"], asked["version"], "".join(secrets[:1]))
            if caller.queues is not None:
                caller.check_job(self._store.get(asked["owner"]), asked["owner"])

    def _get(self, blobs: Blobs, caller: Caller, document: bytes) -> BlobFetched:
        reference = decode_reference(document)
        key = parse_key(reference.key)
        if key is None or not blobs.is_own(key):
            # Several stores may share a place: a reader of one sees no blobs of the others.
            raise InvalidRequestError(f"blob {reference.key} does not belong to this store")
        self._check_sees(caller, key, reference.key)
        if (url := blobs.sign_get(reference)) is not None:
            return BlobFetched(url=url)
        if reference.size > CARRIED_BYTES_MAX:
            raise PayloadTooLargeError(
                f"blob {reference.key} has {reference.size:,} bytes, and {CARRIED_BYTES_MAX:,} go "
                "through a service: read it on the machine that keeps it, or keep blobs on S3"
            )
        return BlobFetched(blobs.get(reference))

    def _check_sees(self, caller: Caller, key: BlobKey, text: str) -> None:
        """A token limited to some queues may read blobs named by a job in those queues."""
        if caller.queues is None:
            return
        if key.kind != "schedule":
            job = caller.check_job(self._store.get(key.owner), key.owner)
            if text not in references_of(job):
                raise no_job(key.owner)
            return
        schedule = self._store.get_schedule(key.owner)
        if schedule is not None and schedule.queue in caller.queues:
            return
        # The schedule may be gone while its jobs still exist.
        named = JobFilter(queues=tuple(caller.queues), metadata={"schedule": key.owner}, text=text)
        if not self._store.search(named, limit=1).jobs:
            raise no_job(key.owner)
