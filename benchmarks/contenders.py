"""Who is measured: each queue in the best configuration that loses no job without need."""

from __future__ import annotations

from dataclasses import dataclass

SYNCED = "each write synced"
NOW_AND_THEN = "synced now and then"
NONE = "none"


@dataclass(frozen=True)
class Contender:
    """One queue in one configuration."""

    name: str
    module: str
    place: str
    """See `Places.fresh`: `redis` is in memory, `redis-aof` syncs each write."""
    durability: str
    configuration: str
    """What its worker does at a time."""
    url_suffix: str = ""
    environment: str = ""
    """The folder of its Python, where it cannot share one with the others."""

    def url(self, place: str) -> str:
        """Where it keeps its jobs. Behind a plain path, parameters would be part of the name."""
        scheme = "sqlite:///" if self.is_ours and self.place == "sqlite" else ""
        return f"{scheme}{place}{self.url_suffix}"

    @property
    def is_ours(self) -> bool:
        return self.module in (OURS, IN_TURN)

    @property
    def is_durable(self) -> bool:
        return self.durability == SYNCED

    @property
    def is_of_node(self) -> bool:
        return self.module.startswith("node/")


OURS, IN_TURN = "leasehold_itself", "leasehold_in_turn"
ADAPTIVE = "1 process, 8 threads; leases ahead by measured run time; history kept"
STREAM = "2 processes, a stream with acknowledgement, 100 messages a read"
BULLMQ = "1 process, 100 jobs at a time; completed jobs removed"
CONTENDERS = (
    Contender("Leasehold, SQLite", OURS, "sqlite", SYNCED, ADAPTIVE),
    Contender(
        "Leasehold, SQLite normal", OURS, "sqlite", NOW_AND_THEN, ADAPTIVE, "?durability=normal"
    ),
    Contender(
        "Leasehold, SQLite in turn",
        IN_TURN,
        "sqlite",
        SYNCED,
        f"{ADAPTIVE}; as it was before late sync: SQLite syncs inside each commit",
    ),
    Contender("Leasehold, PostgreSQL", OURS, "postgres", SYNCED, ADAPTIVE),
    Contender("Leasehold, over HTTP", OURS, "http", SYNCED, f"{ADAPTIVE}; a server on SQLite"),
    Contender("Leasehold, over gRPC", OURS, "grpc", SYNCED, f"{ADAPTIVE}; a server on SQLite"),
    Contender(
        "huey, SQLite",
        "huey_sqlite",
        "sqlite",
        SYNCED,
        "1 process, 8 threads, polling from every 1 ms; no results",
    ),
    Contender(
        "huey, Redis",
        "huey_redis",
        "redis",
        NONE,
        "1 process, 8 threads, blocking reads; no results",
    ),
    Contender(
        "Celery, Redis",
        "celery_redis",
        "redis",
        NONE,
        "2 processes, 64 jobs prefetched each, late acknowledgement; no results",
    ),
    Contender(
        "RQ, Redis",
        "rq_redis",
        "redis",
        NONE,
        "1 process that does not fork, one job at a time; results not kept",
    ),
    Contender("Dramatiq, Redis", "dramatiq_redis", "redis", NONE, "2 processes, 8 threads each"),
    Contender("taskiq, Redis", "taskiq_redis", "redis", NONE, STREAM),
    Contender("taskiq, durable Redis", "taskiq_redis", "redis-aof", SYNCED, STREAM),
    Contender("SAQ, Redis", "saq_redis", "redis", NONE, "1 process, 10 jobs at a time"),
    Contender(
        "arq, Redis",
        "arq_redis",
        "redis",
        NONE,
        "1 process, 100 jobs at a time, polling every 10 ms; results not kept",
        environment="arq",
    ),
    Contender(
        "Procrastinate, PostgreSQL",
        "procrastinate_postgres",
        "postgres",
        SYNCED,
        "1 process, 8 jobs at a time; successful jobs deleted",
    ),
    Contender(
        "PgQueuer, PostgreSQL",
        "pgqueuer_postgres",
        "postgres",
        SYNCED,
        "1 process, asyncpg and uvloop, batches of 100",
    ),
    Contender("BullMQ, Redis", "node/bullmq", "redis", NONE, BULLMQ),
    Contender("BullMQ, durable Redis", "node/bullmq", "redis-aof", SYNCED, BULLMQ),
    Contender(
        "graphile-worker, PostgreSQL",
        "node/graphile",
        "postgres",
        SYNCED,
        "1 process, 24 jobs at a time, a local queue of 500; jobs deleted when done",
    ),
)
