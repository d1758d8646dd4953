"""Python's own time: lines, callers, stacks and threads from the samples of a capture, and ops that run one by one."""
