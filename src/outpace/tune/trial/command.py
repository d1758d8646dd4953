"""`Command`: how a script is started, as a shell would take it: variables, the script or module, its arguments."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model.errors import NotFoundError, UsageError

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = frozenset({"python", "python3"})


@dataclass(frozen=True)
class Command:
    """`[NAME=VALUE ...] [python] [-m] SCRIPT [ARGUMENT ...]`.

    parts: the script's path, or a module's name where `module` is true, and its arguments. environment: variables that are set besides the
    user's.
    """

    parts: tuple[str, ...]
    module: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Command:
        """A command line. The path of a script may stand alone, unquoted, even with spaces.

        Raises NotFoundError where there is no such file, UsageError for a quote without its end.
        """
        parts = [text] if os.path.isfile(text) else _split(text)
        environment = {}
        while parts and _ASSIGNMENT.match(parts[0]) and not os.path.isfile(parts[0]):
            name, _, value = parts.pop(0).partition("=")
            environment[name] = value
        if parts and parts[0] in _PYTHON and not os.path.isfile(parts[0]):
            del parts[0]
        module = parts[:1] == ["-m"]
        if module:
            del parts[0]
        if not parts or not (module or os.path.isfile(parts[0])):
            raise NotFoundError(
                f"There is no script {parts[0] if parts else text}. Give the path of a Python file, in quotes together with its arguments, "
                "and with variables before it: 'NAME=VALUE train.py --epochs 3'."
            )
        return cls(tuple(parts), module, environment)

    def __str__(self) -> str:
        start = ["python", "-m"] if self.module else ["python"]
        return " ".join([*assignments(self.environment), shlex.join([*start, *self.parts])])


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text} is no command line: {error}.") from error


def assignments(variables: Mapping[str, str]) -> list[str]:
    """Variables as a shell takes them before a command."""
    return [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
