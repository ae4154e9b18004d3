"""Pending and running jobs: their order, their limits, their leases, and how these end."""
