"""Leasehold at work on a throw-away store, for `demo` and `bench`.

tasks has the tasks of the jobs, worker a worker process, stage their common stage, step, steps and
surroundings the steps of `demo`, measures the measurements of `bench`.
"""
