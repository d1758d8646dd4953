"""What a check of `outpace doctor` says."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Any

from outpace._dataclass import dataclass


class CheckStatus(str, Enum):
    """What a check found; only a problem means that captures do not work here."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class CheckResult:
    """One line of the diagnosis: what was checked, a sentence on it, where that was seen, and the
    command that mends it.
    """

    id: str
    outcome: CheckStatus
    text: str
    evidence: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All results, and what they mean together: `works` tells whether a capture can be made,
    `verdict` says it in a sentence.
    """

    verdict: str
    works: bool
    python: str
    results: tuple[CheckResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain values, for JSON."""
        return asdict(self)


def ok(name: str, text: str, *evidence: str) -> CheckResult:
    """A check that found nothing wrong."""
    return CheckResult(name, CheckStatus.OK, text, evidence)


def note(name: str, text: str, *evidence: str, command: str | None = None) -> CheckResult:
    """Something worth knowing that stops no capture."""
    return CheckResult(name, CheckStatus.NOTE, text, evidence, command)


def problem(name: str, text: str, *evidence: str, command: str | None = None) -> CheckResult:
    """Something that stops captures, or makes them miss what they are made for."""
    return CheckResult(name, CheckStatus.PROBLEM, text, evidence, command)


def unchecked(name: str, text: str) -> CheckResult:
    """A check that could not be made, or was not asked for."""
    return CheckResult(name, CheckStatus.NOT_CHECKED, text)
