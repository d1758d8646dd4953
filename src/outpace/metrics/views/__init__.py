"""Tables that pages show; no other metric is computed from them."""
