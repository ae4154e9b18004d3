"""For the people who work on Leasehold: nothing in here is installed."""
