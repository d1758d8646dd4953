# SPDX-License-Identifier: Apache-2.0
"""Masking of secrets among a script's arguments: keys, tokens, secrets and passwords, recognised by
the names before them.

A command line is shown, stored and sent on: in a capture's record, in reports, in suggested
commands. Dots replace such values there; the script itself gets its arguments unchanged. Standard
library only, because records are written inside the user's training process.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from outpace._lazy import compile_lazily

MASK_TEXT = "..."

_WORDS = compile_lazily(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
)  # words of a name: api-key, api_key, apiKey, API_KEY, model.api.key
_ALWAYS = ("secret", "password", "passwd", "passphrase", "pwd", "credential")
_BUT_NUMBERS = ("key", "token")  # names of secrets unless the value is a number: `--max-tokens 512` is a size
_BEHIND = ("id", "value")  # words that may follow the name of a secret: AWS_ACCESS_KEY_ID
_NUMBER = compile_lazily(r"[-+]?[\d.,_]{1,9}")
_ASSIGNMENT = compile_lazily(r"(?P<name>[-+~]*[A-Za-z][\w./-]*)=(?P<value>.*)", re.DOTALL)
_OPTION = compile_lazily(r"-[A-Za-z]|--[a-z][\w-]*(?:=.*)?", re.DOTALL)
_INSIDE = compile_lazily(r"""(?P<name>[A-Za-z][\w.-]*)(?P<between>["']?\s*[=:]\s*)(?P<value>"[^"]*"|'[^']*'|[^\s"',;&}\])]+)""")
_LOGIN = compile_lazily(r"(?<=://)([^/\s:@]*:)[^/\s@]+(?=@)")  # user:password@host


def mask_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with dots in place of secrets: `--api-key VALUE`, `--token=VALUE`,
    `API_KEY=VALUE`, also inside of an argument (`https://host/?token=VALUE`, `{"password":
    "VALUE"}`).

    >>> mask_secrets(["--epochs", "3", "--api-key", "abc"])
    ('--epochs', '3', '--api-key', '...')
    """
    masked: list[str] = []
    name = ""  # of the option before this argument
    for argument in arguments:
        if name and not _OPTION.fullmatch(argument) and _is_secret(name, argument):
            masked.append(MASK_TEXT)
        else:
            masked.append(_mask_argument(argument))
        name = argument if argument.startswith("-") and "=" not in argument else ""
    return tuple(masked)


def mask_command_line(command_line: str) -> str:
    """Return a command line with dots in place of secrets (see `mask_secrets`)."""
    try:
        parts = shlex.split(command_line)
    except ValueError:  # a quote is not closed
        return " ".join(mask_secrets(command_line.split()))
    masked = mask_secrets(parts)
    return command_line if list(masked) == parts else shlex.join(masked)


def find_masked_names(command_line: str) -> tuple[str, ...]:
    """Return the names before dots in a masked command line."""
    return tuple(
        dict.fromkeys(re.findall(rf"([^\s=\"'?&{{,]+)[\"']?\s*[=:\s]\s*[\"']*{re.escape(MASK_TEXT)}(?![\w./])", command_line))
    )


def _mask_argument(argument: str) -> str:
    named = _ASSIGNMENT.fullmatch(argument)
    if named is None:
        return _LOGIN.sub(rf"\1{MASK_TEXT}", _INSIDE.sub(_mask_nested, argument))
    name, value = named.group("name", "value")
    return f"{name}={MASK_TEXT if _is_secret(name, value) else _mask_argument(value)}"


def _mask_nested(match: re.Match[str]) -> str:
    name, between, value = match.group("name", "between", "value")
    quote = value[0] if value[0] in "\"'" else ""
    if _is_secret(name, value.strip("\"'")):
        return f"{name}{between}{quote}{MASK_TEXT}{quote}"
    return name + between + _INSIDE.sub(_mask_nested, value)


def _is_secret(name: str, value: str) -> bool:
    """Whether the value of a name is a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and words[-1] in _BEHIND:
        words.pop()
    last = words[-1].removesuffix("s") if words else ""
    return bool(value) and (last.endswith(_ALWAYS) or (last.endswith(_BUT_NUMBERS) and not _NUMBER.fullmatch(value)))
