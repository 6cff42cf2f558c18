"""Alembic migrations of the registry's schema."""
