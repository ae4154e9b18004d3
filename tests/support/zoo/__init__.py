"""A zoo of hostile tasks: each does, on purpose, something that once broke a worker or might.

`members.py` says what a member is, the other modules hold the members, `host.py` is the worker
process that runs them, and `visit.py` what a test does with each.
"""
