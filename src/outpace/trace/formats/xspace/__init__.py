"""XSpace, the format of TensorFlow's and JAX's profiler (`*.xplane.pb`), gzipped or not."""

from outpace.trace.formats.format import Format

FORMAT = Format(__name__, endings=(".xplane.pb.gz", ".xplane.pb"), others=(".pb.gz", ".pb", ".gz"))
