"""The tables, their migrations, and the ways from a row to a value and back."""
