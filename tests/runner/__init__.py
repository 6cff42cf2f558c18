"""Tests of the runner: its parts by themselves, and all of it behind a real tritonserver."""

import pytest

pytest.register_assert_rewrite("tests.runner.served")
