"""Other queues, each as its own documentation says it runs best, and Leasehold in the same way."""
