"""Files for other programs: alert rules for Prometheus and a dashboard for Grafana."""

from importlib.resources import files
from typing import Final

ALERT_RULES: Final = "alerts.rules.yml"
DASHBOARD: Final = "dashboard.json"


def shipped(name: str) -> str:
    """The text of one of them."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
