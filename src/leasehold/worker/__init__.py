"""What runs jobs: leases, heartbeat, recovery sweep, supervisor, worker loop and executors."""
