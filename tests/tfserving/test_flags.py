from __future__ import annotations

import math

import pytest

from bridge.tfserving.flags import CommandLine, Flag, Kind, Value, parse, usage

FLAGS = (
    Flag("port", Kind.INT32, 8500, "a port"),
    Flag("micros", Kind.INT64, 60_000_000, "an interval"),
    Flag("fraction", Kind.FLOAT, 0.5, "a share"),
    Flag("batching", Kind.BOOL, False, "a switch"),
    Flag("batching_file", Kind.STRING, "", "a file whose name begins as the switch does"),
    Flag("name", Kind.STRING, "default", "a name"),
    Flag("url", Kind.STRING, (), "addresses", repeats=True),
    Flag("level", Kind.STRING, "info", "a choice", choices=("info", "error")),
)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--port=1"], {"port": 1}),
        (["--port=-7"], {"port": -7}),
        (["--port=+7"], {"port": 7}),
        (["--port= 7"], {"port": 7}),
        (["--port=007"], {"port": 7}),
        (["--port=1", "--port=2"], {"port": 2}),
        (["--port=2147483648"], {"port": -(2**31)}),
        (["--micros=9223372036854775807"], {"micros": 2**63 - 1}),
        (["--micros=99999999999999999999"], {"micros": 2**63 - 1}),
        (["--fraction=.25"], {"fraction": 0.25}),
        (["--fraction=1e-3"], {"fraction": 0.001}),
        (["--fraction=0x1p-2"], {"fraction": 0.25}),
        (["--fraction=inf"], {"fraction": math.inf}),
        (["--batching"], {"batching": True}),
        (["--batching=true"], {"batching": True}),
        (["--batching", "--batching=false"], {"batching": False}),
        (["--name="], {"name": ""}),
        (["--name=a=b"], {"name": "a=b"}),
        (["--name= a "], {"name": " a "}),
        (["--url=a:1", "--url=b:2"], {"url": ("a:1", "b:2")}),
        (["--level=error"], {"level": "error"}),
    ],
)
def test_values(words: list[str], values: dict[str, Value]) -> None:
    assert parse(words, FLAGS) == CommandLine(values)


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("--port=", "Couldn't interpret value  for flag port."),
        ("--port=abc", "Couldn't interpret value abc for flag port."),
        ("--port=1x", "Couldn't interpret value 1x for flag port."),
        ("--port=1 ", "Couldn't interpret value 1  for flag port."),
        ("--port=0x10", "Couldn't interpret value 0x10 for flag port."),
        ("--port=1_000", "Couldn't interpret value 1_000 for flag port."),
        ("--micros=1.5", "Couldn't interpret value 1.5 for flag micros."),
        ("--fraction=", "Couldn't interpret value  for flag fraction."),
        ("--fraction=1,5", "Couldn't interpret value 1,5 for flag fraction."),
        ("--fraction=1e", "Couldn't interpret value 1e for flag fraction."),
        ("--batching=1", "Couldn't interpret value =1 for flag batching."),
        ("--batching=True", "Couldn't interpret value =True for flag batching."),
        ("--batching=", "Couldn't interpret value = for flag batching."),
        # A boolean takes every word that begins with its name, also one that is another flag listed after it.
        ("--batching_file=x", "Couldn't interpret value _file=x for flag batching."),
        ("--level=loud", "Couldn't interpret value loud for flag level."),
    ],
)
def test_values_that_are_none(word: str, fault: str) -> None:
    line = parse([word, "--name=a"], FLAGS)
    assert (line.faults, line.values, line.leftovers) == ((fault,), {"name": "a"}, ())
    assert not line.understood


@pytest.mark.parametrize(
    ("words", "leftovers", "values", "understood"),
    [
        (["--help"], ["--help"], {}, False),
        (["--unknown", "--help"], ["--unknown", "--help"], {}, True),
        (["--name=a", "--help"], ["--help"], {"name": "a"}, False),
        (["--name", "a"], ["--name", "a"], {}, True),
        (["-name=a"], ["-name=a"], {}, True),
        (["--na-me=a"], ["--na-me=a"], {}, True),
        (["--nobatching"], ["--nobatching"], {}, True),
        (["name=a"], ["name=a"], {}, True),
        ([""], [""], {}, True),
        (["--name=a", "--", "--name=b", "x"], ["--", "--name=b", "x"], {"name": "a"}, True),
        (["--", "--help"], ["--", "--help"], {}, True),
        (["x", "--name=a"], ["x"], {"name": "a"}, True),
    ],
)
def test_words_that_are_left_over(
    words: list[str], leftovers: list[str], values: dict[str, Value], understood: bool
) -> None:
    line = parse(words, FLAGS)
    assert (list(line.leftovers), line.values, line.understood) == (leftovers, values, understood)


def test_usage() -> None:
    assert usage("server", FLAGS[:4] + FLAGS[5:7]) == (
        "usage: server\n"
        "Flags:\n"
        "\t--port=8500                      \tint32\ta port\n"
        "\t--micros=60000000                \tint64\tan interval\n"
        "\t--fraction=0.500000              \tfloat\ta share\n"
        "\t--batching=false                 \tbool\ta switch\n"
        '\t--name="default"                 \tstring\ta name\n'
        '\t--url=""                         \tstring\taddresses\n'
    )
