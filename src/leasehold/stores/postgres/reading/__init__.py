"""Reading: jobs, histories, figures, and the integrity of the store."""
