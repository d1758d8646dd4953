# SPDX-License-Identifier: Apache-2.0
"""`python -m outpace.cli`: the same as the `outpace` command."""

from outpace.cli import main

main()
