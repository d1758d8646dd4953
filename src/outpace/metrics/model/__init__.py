"""What the model computes: ops, their places in the program, and the functions and builds that make a step."""
