"""Tables that pages show; no fact is computed from them."""
