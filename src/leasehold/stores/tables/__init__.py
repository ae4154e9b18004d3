"""What the stores on tables (SQLite, PostgreSQL) have in common: each of them hands in the rest."""
