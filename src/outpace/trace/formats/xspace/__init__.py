# SPDX-License-Identifier: Apache-2.0
"""XSpace, the format of TensorFlow's and JAX's profiler (`*.xplane.pb`), gzipped or not."""

from outpace.trace.formats.format import ProfileFormat

FORMAT = ProfileFormat(__name__, endings=(".xplane.pb.gz", ".xplane.pb"), extra_endings=(".pb.gz", ".pb", ".gz"))
