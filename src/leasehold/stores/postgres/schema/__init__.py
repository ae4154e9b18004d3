"""The tables, their migrations, and the conversion of rows to values and back."""
