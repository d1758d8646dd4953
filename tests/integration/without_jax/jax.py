"""Stands before the installed JAX on the path of programs that need none: TensorFlow imports JAX
where it finds it, which takes a second.
"""

raise ImportError("JAX is hidden from this program; see environment() in tests/integration/programs.py")
