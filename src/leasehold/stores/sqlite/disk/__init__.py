"""The files on the disk: opening, locking, inheriting and replacing them, and waking by them."""
