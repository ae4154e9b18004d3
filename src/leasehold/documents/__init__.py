"""JSON-able documents for the outside: one place for the command line and services.

Field names stay the same; times are UTC and become ISO 8601 text; durations are in seconds, and
their names end in `_seconds`.
"""
