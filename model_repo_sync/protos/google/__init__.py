"""The well-known types, as classes of the private pool."""
