"""What holds for all tests."""

from hypothesis import settings

# Test machines are shared: how long one example takes says nothing about the code.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
