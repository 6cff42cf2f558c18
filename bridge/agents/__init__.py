"""Agents on the hosts of Tritons that share no file system with the bridge."""
