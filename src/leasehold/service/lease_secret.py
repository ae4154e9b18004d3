"""Lease secrets: beside its version, which anybody could guess, a lease on the wire has a secret.

It is derived from the store's signing key, so that every server of a store knows all of them and
none has to be kept.
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
        '408d1faa4d39f2eac08c021170c08b97'
        """
        named = f"lease:{version}:{job_id}".encode(errors="replace")
        return hmac.new(self._key, named, hashlib.sha256).hexdigest()[:32]

    def check(self, job_id: str, version: int, secret: str) -> None:
        """Refuse who does not know the secret, in the words for a lease that is not theirs."""
        wanted = self.of(job_id, version)
        if not hmac.compare_digest(wanted.encode(), secret.encode(errors="replace")):
            raise LeaseLostError(
                f"lease {version} of job {job_id} is not yours: its secret is another one"
            )
