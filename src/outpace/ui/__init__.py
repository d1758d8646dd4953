"""The workbench: all runs below some folders in a browser, their reports and timelines, from this
machine to this machine's user.
"""
