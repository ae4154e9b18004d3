"""What is decided: each rule once, over the narrow protocol that it asks of a store."""
