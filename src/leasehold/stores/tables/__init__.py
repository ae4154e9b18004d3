"""The common part of the stores on tables (SQLite, PostgreSQL): each of them hands in the rest."""
