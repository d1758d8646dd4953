# SPDX-License-Identifier: Apache-2.0
"""The results of the checks of `outpace doctor`."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Any

from outpace._dataclass import dataclass


class CheckStatus(str, Enum):
    """Status of a check; only PROBLEM means that captures do not work here."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class CheckResult:
    """One line of the diagnosis.

    id: name of the check.
    outcome: its status.
    text: the finding as a sentence.
    evidence: lines that show where the finding comes from.
    command: command that repairs it; None without one.
    """

    id: str
    outcome: CheckStatus
    text: str
    evidence: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All results and their conclusion.

    verdict: the conclusion as a sentence.
    works: whether captures work.
    python: path of the examined Python.
    results: all check results, in order.
    """

    verdict: str
    works: bool
    python: str
    results: tuple[CheckResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain values for JSON."""
        return asdict(self)


def ok(name: str, text: str, *evidence: str) -> CheckResult:
    """Return the result of a check that found nothing wrong."""
    return CheckResult(name, CheckStatus.OK, text, evidence)


def note(name: str, text: str, *evidence: str, command: str | None = None) -> CheckResult:
    """Return a result that is worth knowing but stops no capture."""
    return CheckResult(name, CheckStatus.NOTE, text, evidence, command)


def problem(name: str, text: str, *evidence: str, command: str | None = None) -> CheckResult:
    """Return a result for a fault that stops captures or makes them incomplete."""
    return CheckResult(name, CheckStatus.PROBLEM, text, evidence, command)


def unchecked(name: str, text: str) -> CheckResult:
    """Return the result of a check that was not possible or not requested."""
    return CheckResult(name, CheckStatus.NOT_CHECKED, text)
