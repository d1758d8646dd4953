# SPDX-License-Identifier: Apache-2.0
"""What a tuning, a race and a search through the environment show: pages, and progress while they
run.
"""
