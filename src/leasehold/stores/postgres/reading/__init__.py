"""Looking: jobs, histories, figures, and whether all of it is sound."""
