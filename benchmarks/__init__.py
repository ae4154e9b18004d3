"""Leasehold beside the raw limit and beside a rival, measured in one run. `make bench` runs it."""
