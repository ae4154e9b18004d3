"""Leasehold at work on a throw-away store, for `demo` and `bench`.

tasks is what the jobs do, worker a worker process, stage what both play on, step, steps and
surroundings what `demo` shows, measures what `bench` measures.
"""
