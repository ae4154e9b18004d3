"""What people have configured: rules of queues, settings, schedules."""
