"""TF Serving's command line: its own parser, whose rules differ from every common one, and its usage text.

Only `--name=value` is understood, and a bare `--name` for a boolean. A repeated flag counts as it was given last. `--`
ends the parsing. What is not understood is left over, which is no fault.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Value = int | float | bool | str | tuple[str, ...]

_INTEGER = re.compile(r"\s*[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
_HEXADECIMAL = re.compile(r"\s*[+-]?0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Kind(Enum):
    """The type of a flag's value, as the usage text calls it."""

    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    BOOL = "bool"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `repeats` collects the values of all occurrences; `choices`, where given, are all that a value may be.

    `no_effect` says why the flag is accepted without doing anything here, empty where it does something.
    """

    name: str
    kind: Kind
    default: Value
    help: str
    no_effect: str = ""
    repeats: bool = False
    choices: tuple[str, ...] = ()


class FlagValueError(ValueError):
    """A text that is no value of the flag, in TF Serving's sentence."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(f"Couldn't interpret value {text} for flag {name}.")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a command line says: values by name, the words left over, and a sentence for each value that is none."""

    values: Mapping[str, Value] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        """False where the process has to end with the usage text; so `--help` does, being left over first."""
        return not self.faults and self.leftovers[:1] != ("--help",)


def parse(words: Sequence[str], flags: Sequence[Flag]) -> CommandLine:
    """Read the words after the program's name."""
    values: dict[str, Value] = {}
    leftovers: list[str] = []
    faults: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            leftovers += words[position:]
            break
        match = _match(word, flags)
        if match is None:
            leftovers.append(word)
            continue
        try:
            _keep(values, *match)
        except FlagValueError as error:
            faults.append(str(error))
    return CommandLine(values, tuple(leftovers), tuple(faults))


def read_value(flag: Flag, text: str) -> int | float | bool | str:
    """The value that `text` spells. Raises FlagValueError."""
    match flag.kind:
        case Kind.BOOL:
            value: int | float | bool | str = _boolean(flag, text)
        case Kind.INT32:
            value = ctypes.c_int32(_integer(flag, text)).value
        case Kind.INT64:
            value = _integer(flag, text)
        case Kind.FLOAT:
            value = _float(flag, text)
        case Kind.STRING:
            value = text
    if flag.choices and value not in flag.choices:
        raise FlagValueError(text, flag.name)
    return value


def usage(program: str, flags: Iterable[Flag]) -> str:
    """The text that --help and a command line that is not understood print."""
    lines = [f"\t{f'--{flag.name}={_shown(flag)}':<33}\t{flag.kind.value}\t{flag.help}\n" for flag in flags]
    return f"usage: {program}\nFlags:\n{''.join(lines)}"


def _match(word: str, flags: Sequence[Flag]) -> tuple[Flag, str] | None:
    """The first flag that `word` begins with, and the text of its value.

    A boolean takes any word that begins with its name, as in TF Serving: `--version_2` is a bad value of --version.
    """
    for flag in flags:
        prefix = f"--{flag.name}" if flag.kind is Kind.BOOL else f"--{flag.name}="
        if word.startswith(prefix):
            return flag, word.removeprefix(prefix)
    return None


def _keep(values: dict[str, Value], flag: Flag, text: str) -> None:
    value = read_value(flag, text)
    if flag.repeats:
        before = values.get(flag.name, ())
        values[flag.name] = (*(before if isinstance(before, tuple) else ()), str(value))
    else:
        values[flag.name] = value


def _boolean(flag: Flag, tail: str) -> bool:
    if tail not in ("", "=true", "=false"):
        raise FlagValueError(tail, flag.name)
    return tail != "=false"


def _integer(flag: Flag, text: str) -> int:
    """As scanf reads it: clamped to 64 bits; an int32 then keeps the lower half."""
    if not _INTEGER.fullmatch(text):
        raise FlagValueError(text, flag.name)
    return min(max(int(text), _INT64_MIN), _INT64_MAX)


def _float(flag: Flag, text: str) -> float:
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(text.strip())
    raise FlagValueError(text, flag.name)


def _shown(flag: Flag) -> str:
    match flag.kind:
        case Kind.BOOL:
            return str(flag.default).lower()
        case Kind.FLOAT:
            return f"{flag.default:f}"
        case Kind.STRING:
            return f'"{"" if flag.repeats else flag.default}"'
        case _:
            return str(flag.default)
