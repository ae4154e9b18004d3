"""TaskQueue, what it gives out, and what it takes."""
