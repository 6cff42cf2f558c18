"""Several bridges on one PostgreSQL: one leads, all serve. docs/replicas.md has the protocol."""
