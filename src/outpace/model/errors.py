# SPDX-License-Identifier: Apache-2.0
"""Every error that Outpace raises on purpose.

An error is a sentence that says what is wrong, where, and what to do about it. The command line
maps each class to its exit code in one place (`exit_code`), and `docs/exit-codes.md` is the table
for users.
"""

from __future__ import annotations

from typing import ClassVar


class OutpaceError(Exception):
    """Base of all errors that Outpace raises on purpose; `exit_code` is the command line's exit
    code for it.
    """

    exit_code: ClassVar[int] = 1


class UsageError(OutpaceError):
    """The request itself makes no sense (unknown tool, contradicting options)."""

    exit_code = 2


class ProfileError(OutpaceError):
    """The input was found but holds no readable profile (empty, garbage, another format)."""

    exit_code = 3


class NotFoundError(OutpaceError):
    """No file, folder or profile at the given place."""

    exit_code = 4


class CaptureError(OutpaceError):
    """A capture could not be made (no profiler, no step reached, log directory not writable)."""

    exit_code = 5


class PartialCaptureError(CaptureError):
    """Several workers were captured at once, and the profiles of some are missing."""

    exit_code = 7


class OutputError(OutpaceError):
    """A report could not be written where the user asked for it."""

    exit_code = 6


class TuneError(OutpaceError):
    """Nothing could be tuned: the program trains in an unsupported way, or does not train."""

    exit_code = 8


class ToolError(OutpaceError):
    """A tool raised an unexpected error; the rest of the report is complete."""

    exit_code = 9


class RegressionError(OutpaceError):
    """A gated comparison: the program is slower by more than the gate allows."""

    exit_code = 10


class InconclusiveError(OutpaceError):
    """A gated comparison: the captures do not show whether the program is slower by more than the
    gate allows.
    """

    exit_code = 11


class TooLargeError(OutpaceError):
    """A profile needs more memory than Outpace may use."""

    exit_code = 12


class UnprovenError(OutpaceError):
    """A tuning that required a proven speed-up proved none."""

    exit_code = 13


class InstallationError(OutpaceError, ImportError):
    """Outpace itself is not installed correctly."""


class RebuildError(OutpaceError):
    """A pipeline cannot be rebuilt faithfully: the message names the stage and why. The pipeline
    itself is untouched.
    """
