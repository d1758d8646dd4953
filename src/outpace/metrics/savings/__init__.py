# SPDX-License-Identifier: Apache-2.0
"""Upper and lower bounds of what a change of the program saves, as shares of the steady step."""
