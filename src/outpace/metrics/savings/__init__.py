"""What a change could save: the budget of a step, and the bounds that follow from it."""
