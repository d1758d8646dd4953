"""The program as a whole: whose loop it is, its steps and what lies between them, and what there is to save."""
