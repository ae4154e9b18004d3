"""Worker processes: how `worker start` runs them, and how others find and stop them.

Read in this order: plan (the request), process (one worker process), crew (the parent that starts
several and replaces those that end), background (a crew without a terminal), pidfile (running
processes, by proof), stopping (from another shell), overview (the table of `worker status`).
"""
