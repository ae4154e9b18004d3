"""The simulator over real connections, whose requests and replies are lost, repeated and delayed.

Its own faults strike as ever, between the callers and the store. Here the wire between the remote
store and the service has faults of its own: what the remote store sends again must not be done
twice, and what arrives late must not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any, Final

import pytest

from leasehold.core.contract.store import Store
from leasehold.env import Env
from leasehold.stores.remote import RemoteStore
from leasehold.stores.remote.carrying import Carrier, FailedError, PollConnection
from leasehold.testing.simulator import Scenario, simulate
from leasehold.testing.simulator.stores import memory_store
from service.conftest import serving

SEED = 8
STEPS = 60
ONCE: Final = frozenset({"submit_once", "exchange_once"})
"""What is sent again under the same id, and answered as the first time. Of other calls, each
repetition is one more call, of which the simulator would not know."""
FAULTS = ("request lost", "reply lost", "repeated", "delayed")


class FaultyWire:
    """Carries calls as the real one does, except when something goes wrong."""

    def __init__(self, carrier: Carrier, random: Random, struck: Counter[str]) -> None:
        self._carrier = carrier
        self._random = random
        self._struck = struck
        self._delayed: list[tuple[int, str, bytes]] = []

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        if self._delayed and self._random.random() < 0.2:
            # The sender has given it up, sent it again and gone on.
            self._carrier.call(*self._delayed.pop())
        if verb not in ONCE or self._random.random() > 0.5:
            return self._carrier.call(server, verb, body)
        fault = self._random.choice(FAULTS)
        self._struck[fault] += 1
        if fault == "request lost":
            raise FailedError(fault, was_sent=True)
        if fault == "delayed":
            self._delayed.append((server, verb, body))
            raise FailedError(fault, was_sent=True)
        self._carrier.call(server, verb, body)
        if fault == "reply lost":
            raise FailedError(fault, was_sent=True)
        return self._carrier.call(server, verb, body)

    def line(self) -> PollConnection:
        return self._carrier.line()

    def close(self) -> None:
        self._carrier.close()


class Wires:
    """Makes stores behind services, each with a wire of its own."""

    def __init__(self, scheme: str, stack: ExitStack) -> None:
        self._is_grpc = scheme == "grpc"
        self._stack = stack
        self.struck: Counter[str] = Counter()

    def __call__(self, env: Env) -> Store:
        served = memory_store(env)
        self._stack.callback(served.close)
        grpc_port = 0 if self._is_grpc else None
        service = self._stack.enter_context(serving(served, insecure=True, grpc_port=grpc_port))
        url = service.grpc_url if self._is_grpc else service.url
        # What it waits between two tries passes on the simulated clock, for everybody.
        store: Any = RemoteStore(f"{url}?retry_seconds=60", env=env)
        transport = store._transport
        transport.carrier = FaultyWire(transport.carrier, env.random, self.struck)
        return store  # type: ignore[no-any-return]


@pytest.fixture(params=["http", "grpc"])
def wires(request: pytest.FixtureRequest) -> Iterator[Wires]:
    with ExitStack() as stack:
        yield Wires(str(request.param), stack)


def test_no_promise_is_broken_over_a_faulty_wire(wires: Wires) -> None:
    report = simulate(Scenario(SEED, steps=STEPS), wires)
    assert report.violation is None, report.explain()
    assert set(wires.struck) == set(FAULTS)
