"""Every command, where its code is, and its one line of help.

The help stands here so that `--help` loads none of them; a test compares the two.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
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
"""In which parts the help names them; any that stand in none come last."""

COMMANDS: Final[dict[str, Entry]] = {
    "init": Entry("leasehold.cli.init", "init", "Create a store, or upgrade one."),
    "enqueue": Entry("leasehold.cli.enqueue", "enqueue", "Submit jobs: commands, tasks, files."),
    "worker": Entry(
        "leasehold.cli.worker", "worker", "Run jobs: start, stop and inspect worker processes."
    ),
    "status": Entry("leasehold.cli.status", "status", "Show queues, jobs and workers."),
    "list": Entry("leasehold.cli.listing", "list_jobs", "List jobs, the last submitted first."),
    "show": Entry("leasehold.cli.show", "show", "Show everything about one job."),
    "logs": Entry("leasehold.cli.logs", "logs", "Show the output and the log of a job."),
    "wait": Entry("leasehold.cli.wait", "wait", "Wait until jobs have ended."),
    "history": Entry("leasehold.cli.history", "history", "Show the events of a job, oldest first."),
    "why": Entry("leasehold.cli.why", "why", "Say why a job does not run."),
    "cancel": Entry("leasehold.cli.cancel", "cancel", "Stop jobs that wait or run."),
    "retry": Entry("leasehold.cli.retry", "retry", "Replay dead or cancelled jobs."),
    "reprioritize": Entry(
        "leasehold.cli.reprioritize", "reprioritize", "Change the priority of waiting jobs."
    ),
    "queue": Entry("leasehold.cli.queues", "queue", "Queues: their rules, state and jobs."),
    "dlq": Entry("leasehold.cli.dlq", "dlq", "Dead letters: list, show, retry and purge them."),
    "operations": Entry(
        "leasehold.cli.operations",
        "operations",
        "Operations: orders to many jobs, how far each is, stop and undo them.",
    ),
    "schedule": Entry("leasehold.cli.schedule", "schedule", "Schedules: recurring jobs."),
    "config": Entry(
        "leasehold.cli.config", "config", "Settings in the store, which running workers follow."
    ),
    "serve": Entry(
        "leasehold.cli.serve",
        "serve",
        "Serve the store over HTTP, and gRPC with --grpc, until Ctrl-C or SIGTERM.",
    ),
    "deploy": Entry("leasehold.cli.deploy", "deploy", "Deploy marks: when versions were deployed."),
    "token": Entry("leasehold.cli.token", "token", "Tokens: who may do what over the network."),
    "stats": Entry(
        "leasehold.cli.stats", "stats", "Show figures of queues: depth, throughput, errors, times."
    ),
    "metrics": Entry(
        "leasehold.cli.metrics", "metrics", "Print the store's figures as Prometheus reads them."
    ),
    "audit": Entry("leasehold.cli.audit", "audit", "Show the audit log, latest first."),
    "top": Entry("leasehold.cli.top", "top", "Watch queues, workers and running jobs live."),
    "sweep": Entry("leasehold.cli.sweep", "sweep", "Take jobs back from lost workers, now."),
    "stuck": Entry(
        "leasehold.cli.stuck",
        "stuck",
        "List running jobs without a heartbeat, or that run for too long.",
    ),
    "prune": Entry(
        "leasehold.cli.prune",
        "prune",
        "Archive and delete jobs that ended longer ago than they are kept.",
    ),
    "backup": Entry(
        "leasehold.cli.backup",
        "backup",
        "Write a consistent copy of the store to PATH while it is in use.",
    ),
    "migrate-store": Entry(
        "leasehold.cli.migrate_store",
        "migrate_store",
        "Move everything from SOURCE to TARGET: from SQLite to PostgreSQL, and back.",
    ),
    "check": Entry(
        "leasehold.cli.check", "check", "Look for damage and broken invariants in the store."
    ),
    "doctor": Entry("leasehold.cli.doctor", "doctor", "Check for everything that needs attention."),
    "bench": Entry("leasehold.cli.bench", "bench", "Measure the throughput of this machine."),
    "demo": Entry("leasehold.cli.demo", "demo", "See every feature at work, each step checked."),
    "completion": Entry(
        "leasehold.cli.completion",
        "completion",
        "Print the script that makes a shell complete commands.",
    ),
}
