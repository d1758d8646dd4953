"""The core's algorithms on event columns, for the layers above: nesting, grouping, joining, spreading, sweeping, coverage."""

from outpace._native import cover, group, join, nest, nest_rows, spread, sweep

__all__ = ["cover", "group", "join", "nest", "nest_rows", "spread", "sweep"]
