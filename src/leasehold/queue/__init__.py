"""TaskQueue, with the types that it returns and takes."""
