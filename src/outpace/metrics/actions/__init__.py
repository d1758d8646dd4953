# SPDX-License-Identifier: Apache-2.0
"""Actions: what to change, with what must hold for that (`table.py`), a file for each subject."""
