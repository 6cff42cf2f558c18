"""ModelMesh's messages and services."""
