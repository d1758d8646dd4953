# SPDX-License-Identifier: Apache-2.0
"""tf.data pipelines: read what was built, change it, and verify the change. Imports no TensorFlow
by itself.
"""
