"""The common part of the stores on tables (SQLite, PostgreSQL); each store supplies the rest."""
