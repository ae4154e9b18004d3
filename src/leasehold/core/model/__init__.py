"""Jobs, leases, outcomes, queues and schedules as values, and pure functions of them."""
