"""What people have laid down: rules of queues, settings, schedules."""
