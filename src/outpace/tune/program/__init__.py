"""A Keras training that is about to begin: what trials may use of it, and how it is put back afterwards."""
