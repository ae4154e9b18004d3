"""The verbs of the contract by theme: each takes the lock once, or a few times."""
