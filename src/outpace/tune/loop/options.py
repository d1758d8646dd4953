"""What can be turned on in a loop of JAX, by name."""

SEVERAL, AHEAD, LATER, DONATED = "several", "ahead", "later", "donated"
