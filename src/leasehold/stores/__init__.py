"""The stores: each applies atomically what the core decides, and none knows another."""
