"""Lease secrets: in addition to its version, which could be guessed, a lease on the wire has a
secret.

It is derived from the store's signing key, so that every server of a store can compute it and none
has to be stored.
"""

from __future__ import annotations

import hashlib
import hmac

from leasehold.errors import LeaseLostError


class LeaseSecrets:
    """Makes lease secrets, and checks them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, job_id: str, version: int) -> str:
        """The secret of one lease: 128 bits as text.

        >>> LeaseSecrets(b"key").of("job", 1)
        'dc7bc555f278ef9bb1fc2cec4d6f82a1'
        """
        named = f"lease:{version}:{job_id}".encode(errors="replace")
        # BLAKE2 is itself a keyed hash: every lease of every exchange has its secret made and
        # checked, and an HMAC takes ten times as long.
        return hashlib.blake2b(named, key=self._key, digest_size=16).hexdigest()

    def check(self, job_id: str, version: int, secret: str) -> None:
        """Refuse a caller without the secret, with the message for a lease that is not theirs."""
        wanted = self.of(job_id, version)
        if not hmac.compare_digest(wanted.encode(), secret.encode(errors="replace")):
            raise LeaseLostError(
                f"lease {version} of job {job_id} is not yours: its secret is different"
            )
