"""tf.data pipelines: read what was built, cost its stages, change it, and verify the change. Imports no TensorFlow by itself."""
