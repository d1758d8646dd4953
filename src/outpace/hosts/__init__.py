"""The hosts of one run, wherever their profiles lie, and however many they are."""
