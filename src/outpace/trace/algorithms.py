"""The core's algorithms on event columns, for the layers above: nesting, grouping, joining, spreading, sweeping, coverage."""

from outpace._native import cover, group, join, nest, spread, sweep

__all__ = ["cover", "group", "join", "nest", "spread", "sweep"]
