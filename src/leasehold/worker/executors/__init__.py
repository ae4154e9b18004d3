"""Four ways to run code: threads, an event loop, child processes, shell commands."""
