# SPDX-License-Identifier: Apache-2.0
"""The workbench (`outpace ui`): a local web site that lists all runs below some folders and shows
their reports and timelines to this machine's user.
"""
