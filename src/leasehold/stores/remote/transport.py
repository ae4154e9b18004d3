"""Calls of a service: the choice of server, repeated calls, and the resulting error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from leasehold.env import Env
from leasehold.errors import StoreClosedError, StoreUnavailableError, UnsupportedError
from leasehold.stores.remote.address import Address
from leasehold.stores.remote.carrying import Carrier, FailedError

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL calls an answer that is none of TLS."""

DELAY_SECONDS_FIRST: Final = 0.05
DELAY_SECONDS_MAX: Final = 2.0


class Transport:
    """Sends calls to one of several servers, the same one as long as it answers."""

    def __init__(self, address: Address, env: Env) -> None:
        self.address = address
        self._env = env
        self._lock = threading.Lock()
        self._server = 0
        self._away_until = float("-inf")
        """The monotonic time until which no caller waits for a server to come back."""
        self._closed = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Create new connections: those of a parent process are the parent's."""
        self.carrier = _carrier(self.address, self._env)

    @property
    def server(self) -> int:
        """The server in use."""
        return self._server

    def call(self, verb: str, body: bytes, *, may_repeat: bool) -> bytes:
        """The answer to a call; raises the service's error.

        A call that may have been carried out is sent again only if it `may_repeat`.
        """
        delays = self._delays()
        left = len(self.address.servers)
        while True:
            self.check_open()
            server = self._server
            try:
                answer = self.carrier.call(server, verb, body)
            except FailedError as failed:
                if failed.was_sent and not may_repeat:
                    raise StoreUnavailableError(
                        f"{self.address} did not answer ({failed}): {verb} may have been "
                        f"carried out all the same; check before you try again"
                    ) from None
                self.turn_from(server)
                left -= 1
                if left > 0:
                    continue
                seconds = next(delays, None)
                if seconds is None:
                    self._away_until = self._env.clock.monotonic() + self.address.retry_seconds
                    raise StoreUnavailableError(
                        f"{self.address} cannot be reached: {failed}{self._meant(failed)}"
                    ) from None
                self._env.clock.pause(seconds)
                left = len(self.address.servers)
            else:
                self._away_until = float("-inf")
                return answer

    def _meant(self, failed: FailedError) -> str:
        """What to write instead, if a server without TLS was asked for it."""
        if not self.address.is_secure or not any(each in str(failed) for each in _NO_TLS):
            return ""
        plain = self.address.scheme.removesuffix("s")
        return f"; it speaks no TLS there: is its address {plain}://?"

    def turn_from(self, server: int) -> None:
        """Use another server from now on, unless another thread has already switched."""
        with self._lock:
            if self._server == server:
                self._server = (server + 1) % len(self.address.servers)

    def _delays(self) -> Iterator[float]:
        """Growing delays with jitter, `retry_seconds` in total.

        There are none right after a wait in vain, so that a caller that makes several calls waits
        once.
        """
        is_away = self._env.clock.monotonic() < self._away_until
        left = 0.0 if is_away else self.address.retry_seconds
        delay = DELAY_SECONDS_FIRST
        while left > 0:
            seconds = min(left, delay * self._env.random.uniform(0.5, 1.0))
            yield seconds
            left -= seconds
            delay = min(2 * delay, DELAY_SECONDS_MAX)

    def check_open(self) -> None:
        """Refuse a call of a store that was closed."""
        if self._closed:
            raise StoreClosedError(f"{self.address} was closed here: open it again")

    def close(self) -> None:
        self._closed = True
        self.carrier.close()


def _carrier(address: Address, env: Env) -> Carrier:
    if not address.is_grpc:
        from leasehold.stores.remote.connections import Connections

        return Connections(address, env)
    try:
        from leasehold.stores.remote.channels import Channels
    except ModuleNotFoundError as missing:
        raise UnsupportedError(
            f"grpc:// needs {missing.name}: pip install 'leasehold[grpc]'"
        ) from missing
    return Channels(address, env)
