"""The dashboard: pages about a store, for people. See `leasehold.dashboard.app`."""

from leasehold.dashboard.app import dashboard, dashboard_routes

__all__ = ["dashboard", "dashboard_routes"]
