"""The files on the disk: who may open, lock, inherit and replace them, and who is woken by them."""
