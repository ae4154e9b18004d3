"""One module per page: what it shows, from the store's own reads."""
