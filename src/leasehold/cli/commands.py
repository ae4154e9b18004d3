"""Every command, where its code is, and its one line of help.

The help is here so that `--help` loads none of them; a test compares the two.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LazyCommand(NamedTuple):
    """A command that is loaded when it is called. Its object is named like the last part."""

    module: str
    attribute: str
    help: str


SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Queue and run work": ("enqueue", "wait", "worker", "schedule", "serve"),
    "Look": (
        *("status", "list", "show", "logs", "history", "why"),
        *("stats", "top", "metrics", "stuck", "audit"),
    ),
    "Change": (
        "cancel",
        "retry",
        "reprioritize",
        "queue",
        "dlq",
        "operations",
        "config",
        "token",
        "deploy",
    ),
    "Operate": ("init", "doctor", "check", "sweep", "prune", "backup", "migrate-store"),
    "Try": ("demo", "bench", "completion"),
}
"""The sections of the help; commands in no section come last."""

COMMANDS: Final[dict[str, LazyCommand]] = {
    "init": LazyCommand("leasehold.cli.init", "init", "Create a store, or upgrade one."),
    "enqueue": LazyCommand(
        "leasehold.cli.enqueue", "enqueue", "Submit jobs: commands, tasks, files."
    ),
    "worker": LazyCommand(
        "leasehold.cli.worker", "worker", "Run jobs: start, stop and inspect worker processes."
    ),
    "status": LazyCommand("leasehold.cli.status", "status", "Show queues, jobs and workers."),
    "list": LazyCommand(
        "leasehold.cli.listing", "list_jobs", "List jobs, the last submitted first."
    ),
    "show": LazyCommand("leasehold.cli.show", "show", "Show everything about one job."),
    "logs": LazyCommand("leasehold.cli.logs", "logs", "Show the output and the log of a job."),
    "wait": LazyCommand("leasehold.cli.wait", "wait", "Wait until jobs have ended."),
    "history": LazyCommand(
        "leasehold.cli.history", "history", "Show the events of a job, oldest first."
    ),
    "why": LazyCommand("leasehold.cli.why", "why", "Say why a job does not run."),
    "cancel": LazyCommand("leasehold.cli.cancel", "cancel", "Stop jobs that wait or run."),
    "retry": LazyCommand("leasehold.cli.retry", "retry", "Replay dead or cancelled jobs."),
    "reprioritize": LazyCommand(
        "leasehold.cli.reprioritize", "reprioritize", "Change the priority of waiting jobs."
    ),
    "queue": LazyCommand("leasehold.cli.queues", "queue", "Queues: their rules, state and jobs."),
    "dlq": LazyCommand(
        "leasehold.cli.dlq", "dlq", "Dead letters: list, show, retry and purge them."
    ),
    "operations": LazyCommand(
        "leasehold.cli.operations",
        "operations",
        "Operations: orders to many jobs, how far each is, stop and undo them.",
    ),
    "schedule": LazyCommand("leasehold.cli.schedule", "schedule", "Schedules: recurring jobs."),
    "config": LazyCommand(
        "leasehold.cli.config", "config", "Settings in the store, which running workers follow."
    ),
    "serve": LazyCommand(
        "leasehold.cli.serve",
        "serve",
        "Serve the store over HTTP, and gRPC with --grpc, until Ctrl-C or SIGTERM.",
    ),
    "deploy": LazyCommand(
        "leasehold.cli.deploy", "deploy", "Deploy marks: when versions were deployed."
    ),
    "token": LazyCommand(
        "leasehold.cli.token", "token", "Tokens: who may do what over the network."
    ),
    "stats": LazyCommand(
        "leasehold.cli.stats", "stats", "Show figures of queues: depth, throughput, errors, times."
    ),
    "metrics": LazyCommand(
        "leasehold.cli.metrics", "metrics", "Print the store's figures as Prometheus reads them."
    ),
    "audit": LazyCommand("leasehold.cli.audit", "audit", "Show the audit log, latest first."),
    "top": LazyCommand("leasehold.cli.top", "top", "Watch queues, workers and running jobs live."),
    "sweep": LazyCommand("leasehold.cli.sweep", "sweep", "Take jobs back from lost workers now."),
    "stuck": LazyCommand(
        "leasehold.cli.stuck",
        "stuck",
        "List running jobs without a heartbeat, or that run for too long.",
    ),
    "prune": LazyCommand(
        "leasehold.cli.prune",
        "prune",
        "Archive and delete ended jobs that are past their retention.",
    ),
    "backup": LazyCommand(
        "leasehold.cli.backup",
        "backup",
        "Write a consistent copy of the store to PATH while it is in use.",
    ),
    "migrate-store": LazyCommand(
        "leasehold.cli.migrate_store",
        "migrate_store",
        "Move everything from SOURCE to TARGET: from SQLite to PostgreSQL, and back.",
    ),
    "check": LazyCommand(
        "leasehold.cli.check", "check", "Look for damage and broken invariants in the store."
    ),
    "doctor": LazyCommand(
        "leasehold.cli.doctor", "doctor", "Check for everything that needs attention."
    ),
    "bench": LazyCommand("leasehold.cli.bench", "bench", "Measure the throughput of this machine."),
    "demo": LazyCommand(
        "leasehold.cli.demo", "demo", "See every feature at work, each step checked."
    ),
    "completion": LazyCommand(
        "leasehold.cli.completion",
        "completion",
        "Print the script that makes a shell complete commands.",
    ),
}
