"""`metrics`: the text that Prometheus reads, and the files for it and Grafana."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.session import Session
from leasehold.env import SYSTEM


@command()
@click.option("--rules", is_flag=True, help="Print the alert rules instead, a file for Prometheus.")
@click.option("--dashboard", is_flag=True, help="Print the dashboard instead, a file for Grafana.")
def metrics(session: Session, *, rules: bool, dashboard: bool) -> None:
    """Print the store's figures as Prometheus reads them.

    `serve` has the same at /metrics, and `worker start --metrics-port` on a separate port. Without
    either, write a file for the node exporter's text-file collector. For people there are `stats`
    and `top`; `doctor` checks the alert rules without Prometheus.

    \b
    Examples:
      queuectl metrics > jobs.prom.new && mv jobs.prom.new jobs.prom
      queuectl metrics --rules > alerts.rules.yml
      queuectl metrics --dashboard > dashboard.json
    """
    if session.format != "table":
        raise click.UsageError(
            "metrics prints what Prometheus reads, and has no -o: for JSON use `stats -o json`"
        )
    if rules and dashboard:
        raise click.UsageError("--rules and --dashboard are separate files: print one at a time")
    if rules or dashboard:
        from leasehold.observe.files import ALERT_RULES, DASHBOARD, shipped

        click.echo(shipped(ALERT_RULES if rules else DASHBOARD), nl=False)
        return
    from leasehold.observe.prometheus import exposition

    click.echo(exposition(session.queue.store, SYSTEM), nl=False)
