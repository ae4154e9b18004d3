"""What is kept: the tables, their migrations, and the ways from a row to a thing and back."""
