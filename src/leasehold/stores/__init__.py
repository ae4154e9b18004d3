"""The stores: each applies the core's decisions atomically, and none knows another."""
