"""The gRPC face: the same operations, for clients that are made from a proto."""
