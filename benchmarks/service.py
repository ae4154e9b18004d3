"""`python -m benchmarks.service`: what the service costs, over HTTP and gRPC, in one run.

One server process on a fresh SQLite store with durability FULL, on this machine; the clients run
beside it, so they share its processors. All of it takes about four minutes on a quiet machine; with
`--requests 1000000`, the part memory alone takes about ten.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import selectors
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import linear_regression, median

from benchmarks import ours
from benchmarks.bench import Bench, Row, Sizes, asked_and_reached
from benchmarks.flood import ask, flooded
from benchmarks.served import Served, served
from benchmarks.wire import Wire, rate, request

BATCH = 1000
CONNECTIONS = 32
IDLE_WORKERS = 200
FLOOD = 2000
WARM_UP = 30
MEMORY_SAMPLES = 20
MEMORY_POINTS = 10
"""Samples of the memory that are told; all of them make its slope."""


class Service:
    """The parts, each on a server of its own."""

    def __init__(self, bench: Bench, *, quick: bool, requests: int) -> None:
        self.bench = bench
        self._share = 0.1 if quick else 1.0
        self._requests = requests

    def _count(self, number: int) -> int:
        return max(1, int(number * self._share))

    @contextmanager
    def _served(self) -> Iterator[Served]:
        with served(self.bench.fresh()) as server:
            yield server

    def submits(self) -> None:
        """Single submits beside an empty request, and from many connections."""
        with self._served() as server:
            kinds = {"empty request": _empty(server), "submit": _submit(server)}
            count = self._count(4000)
            rates: dict[str, list[float]] = {}
            cpu: dict[str, list[float]] = {}
            for kind in kinds.values():
                rate(server.port, kind, 200)
            for name, connections in itertools.product(kinds, (1, CONNECTIONS)):
                rates[f"{name} x{connections}"], cpu[f"{name} x{connections}"] = [], []
            for _ in range(3):
                for name, connections in itertools.product(kinds, (1, CONNECTIONS)):
                    before = server.cpu_seconds()
                    key = f"{name} x{connections}"
                    rates[key].append(rate(server.port, kinds[name], count, connections))
                    cpu[key].append(1e6 * (server.cpu_seconds() - before) / count)
        one, empty = (median(rates[f"{each} x1"]) for each in ("submit", "empty request"))
        many = median(rates[f"submit x{CONNECTIONS}"])
        self._add("submit", {"empty request": empty, "submit": one}, "per s", one / empty, 0.6)
        self._add(f"submit from {CONNECTIONS} connections", {"one": one, "many": many}, "per s",
                  many / one, 2.0)  # fmt: skip
        micros = {name: median(values) for name, values in cpu.items()}
        self.bench.add(Row("processor time of the server", "full", "us per request", micros))

    def batches(self) -> None:
        """Batches of 1,000 beside the local submit_many."""
        jobs = self._count(100_000)
        local = self.bench.measure(ours.submit_many, "full", max(10_000, jobs))
        with self._served() as server:
            batch = [{"task": "benchmarks.tasks:noop"}] * BATCH
            sent = request("POST", "/jobs/batch", server.token, {"jobs": batch})
            rate(server.port, itertools.repeat(sent), 3)
            http = BATCH * rate(server.port, itertools.repeat(sent), max(5, jobs // BATCH))
            far = {
                scheme: self.bench.measure(
                    ours.submit_many, None, max(10_000, jobs), store=server.url(scheme)
                )
                for scheme in ("http", "grpc")
            }
        values = {"local": local, "POST /jobs/batch": http}
        met = http >= 20_000 or http >= 0.3 * local
        self.bench.add(
            Row("batches of 1,000", "full", "jobs/s", values, {"of local": http / local},
                "20,000 jobs/s, or 0.3 of local", met)
        )  # fmt: skip
        values = {"local": local} | {f"{name}://": each for name, each in far.items()}
        ratios = {f"{name} of local": each / local for name, each in far.items()}
        self.bench.add(Row("submit_many from afar", "full", "jobs/s", values, ratios))

    def drain(self) -> None:
        """A worker of 8 slots, here and far away."""
        jobs = self._count(20_000)
        found: dict[str, list[float]] = {"local": [], "http": [], "grpc": []}
        for _ in range(3):
            found["local"].append(self.bench.measure(ours.filled_drain, "full", jobs))
            for scheme in ("http", "grpc"):
                path = self.bench.fresh()
                self.bench.measure(ours.fill, "full", jobs, store=path)
                with served(path) as server:
                    url = server.url(scheme)
                    found[scheme].append(self.bench.measure(ours.drain, None, jobs, store=url))
        rates = {name: median(values) for name, values in found.items()}
        for scheme, least in (("http", 0.25), ("grpc", rates["http"] / rates["local"])):
            values = {"local": rates["local"], scheme: rates[scheme]}
            self._add(
                f"drain over {scheme}", values, "jobs/s", rates[scheme] / rates["local"], least
            )

    def pick_up(self) -> None:
        """From a submit to the answer of a lease that waits for it."""
        with self._served() as server:
            submits, worker, producer = _submit(server), Wire(server.port), Wire(server.port)
            asked = request("POST", "/leases", server.token, {"worker": "w", "wait_seconds": 20})
            worker.ask(_empty_lease(server))
            took = []
            for _ in range(WARM_UP + self._count(300)):
                worker.sock.sendall(asked)
                time.sleep(0.02)  # until it waits
                began = time.perf_counter()
                producer.sock.sendall(next(submits))
                while worker.more() is None:
                    pass
                took.append(1000 * (time.perf_counter() - began))
                while producer.more() is None:
                    pass
        # In its first moments the server still compiles the templates of its pages.
        took = took[WARM_UP:]
        values = {"p50": median(took), "p99": sorted(took)[len(took) * 99 // 100]}
        self.bench.add(Row("long-poll pick-up", "full", "ms", values, {}, "p50 under 10 ms",
                           values["p50"] < 10))  # fmt: skip

    def idle(self) -> None:
        """Workers that wait for a job that does not come."""
        seconds = 5.0 if self._share < 1 else 40.0
        with self._served() as server:
            wires = [Wire(server.port) for _ in range(IDLE_WORKERS)]
            for number, wire in enumerate(wires):
                wire.sock.sendall(_long_poll(server, number))
            _keep_polling(server, wires, 3.0)
            before = server.cpu_seconds()
            _keep_polling(server, wires, seconds)
            share = 100 * (server.cpu_seconds() - before) / seconds
            for wire in wires:
                wire.close()
        self.bench.add(Row(f"{IDLE_WORKERS} idle long polls", "full", "% of a core",
                           {"server": share}, {}, "under 5 %", share < 5))  # fmt: skip

    def flood(self) -> None:
        """A client that behaves well among many that do not."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * FLOOD + 500), hard))
        with self._served() as server, flooded("127.0.0.1", server.port, FLOOD) as flood:
            assert flood.is_full.wait(60)
            took = sorted(ask("127.0.0.1", server.port, server.token, self._count(500)))
        millis = {"p50": 1000 * took[len(took) // 2], "p99": 1000 * took[len(took) * 99 // 100]}
        self.bench.add(Row(f"flood of {FLOOD} connections", "full", "ms", millis, {},
                           "p99 under 1 s", millis["p99"] < 1000))  # fmt: skip

    def memory(self) -> None:
        """What the server holds after very many requests.

        They leave the store as large as it was: of a large one SQLite keeps up to 64 MiB of pages.
        """
        with self._served() as server:
            kinds = itertools.cycle((_empty(server), _look(server), _empty_leases(server)))
            mixed = (next(kind) for kind in kinds)
            requests = self._count(self._requests)
            held = []
            for _ in range(MEMORY_SAMPLES):
                rate(server.port, mixed, requests // MEMORY_SAMPLES, 8)
                held.append(server.memory_bytes())
        # At first it is still filling its caches.
        half = held[MEMORY_SAMPLES // 2 :]
        slope = linear_regression(range(len(half)), half).slope
        every = MEMORY_SAMPLES // MEMORY_POINTS
        values = {
            f"{requests * (place + 1) // MEMORY_SAMPLES:,}": held[place] / 2**20
            for place in range(every - 1, MEMORY_SAMPLES, every)
        }
        grown = slope * len(half) / half[0]
        unit = f"MiB after so many ({slope * MEMORY_SAMPLES / requests:+.2f} bytes per request)"
        row = Row(f"memory over {requests:,} requests", "full", unit, values)
        row.ratios = {"growth in the second half": grown}
        row.target, row.met = "under 2 %", grown < 0.02
        self.bench.add(row)

    def _add(
        self, name: str, values: dict[str, float], unit: str, ratio: float, least: float
    ) -> None:
        row = Row(name, "full", unit, values, {"ratio": ratio}, f"at least {least:.2f}")
        row.met = ratio >= least
        self.bench.add(row)


def _empty(server: Served) -> Iterator[bytes]:
    """As little as a request can ask that shows a token, is JSON and is answered by the store."""
    body = {"worker": "bench", "leases": []}
    return itertools.repeat(request("POST", "/renewals", server.token, body))


def _submit(server: Served) -> Iterator[bytes]:
    body = {"task": "benchmarks.tasks:noop"}
    return itertools.repeat(request("POST", "/jobs", server.token, body))


def _look(server: Served) -> Iterator[bytes]:
    return itertools.repeat(request("GET", "/queues", server.token))


def _empty_leases(server: Served) -> Iterator[bytes]:
    return itertools.repeat(_empty_lease(server))


def _empty_lease(server: Served) -> bytes:
    return request("POST", "/leases", server.token, {"worker": "w", "wait_seconds": 0})


def _long_poll(server: Served, number: int) -> bytes:
    body = {"worker": f"w{number}", "wait_seconds": 20}
    return request("POST", "/leases", server.token, body)


def _keep_polling(server: Served, wires: list[Wire], seconds: float) -> None:
    """Let each ask again as soon as it is answered."""
    end = time.perf_counter() + seconds
    with selectors.DefaultSelector() as waiting:
        for number, wire in enumerate(wires):
            waiting.register(wire.sock, selectors.EVENT_READ, (number, wire))
        while (left := end - time.perf_counter()) > 0:
            for key, _ in waiting.select(left):
                number, wire = key.data
                if wire.more() is not None:
                    wire.sock.sendall(_long_poll(server, number))


PARTS: dict[str, Callable[[Service], None]] = {
    "submits": Service.submits,
    "batches": Service.batches,
    "drain": Service.drain,
    "pick-up": Service.pick_up,
    "idle": Service.idle,
    "flood": Service.flood,
    "memory": Service.memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=f"of {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to try it")
    parser.add_argument("--requests", type=int, default=100_000, help="of the part memory")
    parser.add_argument("--folder", help="where the stores are made (default: the temp folder)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="leasehold-bench-") as name:
        bench = Bench(Sizes(), "", Path(name))
        service = Service(bench, quick=options.quick, requests=options.requests)
        for part in options.only:
            PARTS[part](service)
    print(f"\n{asked_and_reached(bench.rows)}")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in bench.rows], indent=1))
    missed = [row.scenario for row in bench.rows if row.met is False]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
