"""From a verb to a durable write: turns, transactions, and the step that operations share."""
