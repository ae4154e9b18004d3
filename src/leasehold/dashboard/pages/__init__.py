"""One module per page: its contents, from the store's own reads."""
