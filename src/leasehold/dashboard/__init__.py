"""The dashboard: pages about a store, for people. See `leasehold.dashboard.app`."""

try:
    from leasehold.dashboard.app import dashboard, dashboard_routes
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.startswith("leasehold"):
        raise
    raise ModuleNotFoundError(
        f"the dashboard needs {missing.name}: pip install 'leasehold[dashboard]'", name=missing.name
    ) from None

__all__ = ["dashboard", "dashboard_routes"]
