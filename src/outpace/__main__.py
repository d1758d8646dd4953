"""`python -m outpace`: the same as the `outpace` command."""

from outpace.cli import main

main()
