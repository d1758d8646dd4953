"""Change what holds a training program back, and prove by measurement that the change helps."""
