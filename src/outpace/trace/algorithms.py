"""The core's algorithms on event columns, for the layers above: nesting, grouping, spreading, sweeping, coverage."""

from outpace._native import cover, group, nest, spread, sweep

__all__ = ["cover", "group", "nest", "spread", "sweep"]
