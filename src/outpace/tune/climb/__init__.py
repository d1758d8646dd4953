"""Finds what makes a program faster: limits first, then the bottleneck's optimisations one after the other, each proven in a race."""
