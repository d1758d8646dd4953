# SPDX-License-Identifier: Apache-2.0
"""Version of the package, which is defined here only."""

__version__ = "0.3.0"
