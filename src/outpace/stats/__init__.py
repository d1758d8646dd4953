# SPDX-License-Identifier: Apache-2.0
"""Statistics that several packages share: each quantity stands here once, with its source.

All but `means` use the standard library alone, because races run beside training programs.
"""
