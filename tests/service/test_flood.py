"""Silent and slow connections, more than the server bears with: who behaves well is served.

`benchmarks/flood.py` is the same with 2,000 connections, and measures.
"""

from __future__ import annotations

from benchmarks.flood import ask, flooded

from leasehold.service.server import SILENT_CONNECTIONS_MAX, BoundedProtocol
from service.conftest import WAIT, Service


def test_a_client_is_served_in_a_flood(memory_service: Service) -> None:
    connections = SILENT_CONNECTIONS_MAX + 100
    token = memory_service.token("producer")
    with flooded("127.0.0.1", memory_service.port, connections) as flood:
        assert flood.is_full.wait(WAIT)
        assert len(ask("127.0.0.1", memory_service.port, token, 50)) == 50
        assert len(BoundedProtocol.silent) <= SILENT_CONNECTIONS_MAX + 1
