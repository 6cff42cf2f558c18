from __future__ import annotations

import pytest

from bridge.client_ports import channel_arguments
from bridge.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("grpc.max_concurrent_streams=2", {"grpc.max_concurrent_streams": 2}),
        ("a=1,b=text", {"a": 1, "b": "text"}),
        ("a=1=2", {"a": 1}),
        ("a=", {"a": ""}),
        ("a=-1,a=3000000000", {"a": "3000000000"}),
    ],
)
def test_channel_arguments(text: str, arguments: dict[str, int | str]) -> None:
    assert channel_arguments(text) == arguments


@pytest.mark.parametrize("text", ["a", "a=1,", "=1", ","])
def test_channel_arguments_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not KEY=VALUE"):
        channel_arguments(text)
