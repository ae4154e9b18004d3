"""What every store promises, as numbered clauses."""
