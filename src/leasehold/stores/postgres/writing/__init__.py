"""The way from a verb to a durable write: turns, transactions, the step that operations share."""
