# SPDX-License-Identifier: Apache-2.0
"""`PrivateName`: a name that a framework does not publish."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any


class PrivateName:
    """A private name, read without importing anything.

    package: the framework's package.
    module: the module that defines the name.
    path: the name in the module, or of objects whose class is there: `Class.method`, `_attribute`;
    "" for the module's file.
    name: the last part of the path.
    older: what older versions have instead.
    """

    def __init__(
        self, names: list[PrivateName], package: str, module: str, path: str = "", older: PrivateName | None = None
    ) -> None:
        """Add the name to those of its framework."""
        self.module, self.path, self.older = f"{package}.{module}", path, older
        self.package, self.name = package.split(".")[0], path.rpartition(".")[2]
        names.append(self)

    def __str__(self) -> str:
        return f"{self.module}.{self.path}".rstrip(".")

    @property
    def file(self) -> str:
        """The end of the path of the module's file."""
        return self.module.replace(".", "/") + ".py"

    @property
    def owner(self) -> Any:
        """The module or class that has the name; None where it is not imported."""
        owner: Any = sys.modules.get(self.module)
        for name in self.path.split(".")[:-1]:
            owner = getattr(owner, name, None)
        return owner

    @property
    def value(self) -> Any:
        """What the name stands for in its module; None where that is not imported, or lacks it."""
        return getattr(self.owner, self.name, None)

    def of(self, holder: object, default: Any = None) -> Any:
        """Return an object's attribute of this name."""
        return getattr(holder, self.name, default)

    def replace(self, value: object) -> None:
        """Let the name stand for another value in its module."""
        if not hasattr(self.owner, self.name):
            raise AttributeError(f"{self} is not there to be replaced.")
        setattr(self.owner, self.name, value)

    def is_missing(self, folder: str, read: Callable[[str], str | None]) -> bool:
        """Whether the module's text below a folder lacks the name. `read` returns a file's text,
        None where it cannot.
        """
        base = f"{folder}/{self.module.replace('.', '/')}"
        text = read(f"{base}.py") or read(f"{base}/__init__.py") or ""
        if all(re.search(rf"\b{name}\b", text) for name in self.path.split(".")):
            return False
        return self.older is None or self.older.is_missing(folder, read)
