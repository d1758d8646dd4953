# SPDX-License-Identifier: Apache-2.0
"""Training loops that the user wrote, as programs that can be tuned: the loop itself is
the clock.
"""
