# SPDX-License-Identifier: Apache-2.0
"""Entry point of `python -m outpace`, which is equal to the `outpace` command."""

from outpace.cli import main

main()
