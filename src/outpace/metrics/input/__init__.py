"""The input pipeline: what each stage of tf.data did, what it may be called, and how many examples it brings."""
