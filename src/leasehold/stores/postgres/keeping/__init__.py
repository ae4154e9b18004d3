"""How long ended jobs are kept: clean-ups, the archive, erasing."""
