# SPDX-License-Identifier: Apache-2.0
"""Opening of all hosts of one run, from one or several folders and for any number of hosts."""
