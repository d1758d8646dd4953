"""What is known of modules and names: which ones are sources of change, and which libraries are taken to compute from their arguments.

Lists, not proofs: that is why a rewrite which stands on them also runs the function twice, and states the condition.
"""

from __future__ import annotations

import re

# Modules whose answers differ from call to call, or that act on something else than their arguments.
CHANGING = {
    "random": "draws random numbers",
    "numpy.random": "draws random numbers",
    "tensorflow.random": "draws random numbers",
    "tensorflow._api.v2.random": "draws random numbers",
    "tensorflow.python.ops.stateful_random_ops": "draws random numbers",
    "keras.random": "draws random numbers",
    "scipy.stats": "may draw random numbers",
    "secrets": "draws random numbers",
    "uuid": "makes a new value at every call",
    "time": "reads the clock",
    "datetime": "may read the clock",
    "socket": "talks to the network",
    "ssl": "talks to the network",
    "http": "talks to the network",
    "urllib": "talks to the network",
    "requests": "talks to the network",
    "httpx": "talks to the network",
    "aiohttp": "talks to the network",
    "boto3": "talks to the network",
    "subprocess": "runs another program",
    "multiprocessing": "depends on other processes",
    "threading": "depends on other threads",
    "queue": "depends on other threads",
    "asyncio": "depends on other tasks",
    "tempfile": "makes a new name at every call",
    "sqlite3": "reads a data base, which may change",
    "logging": "writes a log, which a cache would silence",
}
# Of these only what is named here is taken for a function of its arguments.
PARTLY = {
    "os": frozenset({"path", "fspath", "fsencode", "fsdecode", "sep", "stat", "listdir", "scandir"}),
    "sys": frozenset({"maxsize", "byteorder", "version_info", "platform", "float_info"}),
}
LIBRARIES = frozenset({
    "array", "autograph", "base64", "binascii", "bisect", "builtins", "bz2", "cmath", "codecs", "collections", "contextlib", "copy",
    "csv", "cv2", "dataclasses", "decimal", "enum", "fnmatch", "fractions", "functools", "genericpath", "glob", "gzip",
    "h5py", "hashlib", "heapq", "html", "imageio", "io", "itertools", "json", "librosa", "lz4", "lzma", "math", "ml_dtypes",
    "msgpack", "nibabel", "ntpath", "numbers", "numpy", "operator", "orjson", "pandas", "pathlib", "pickle", "PIL",
    "posixpath", "pyarrow", "pydicom", "re", "scipy", "simplejpeg", "skimage", "snappy", "soundfile", "statistics", "string",
    "struct", "tensorflow", "textwrap", "tifffile", "turbojpeg", "types", "typing", "unicodedata", "wave", "xml", "yaml",
    "zlib", "zstandard", "_bisect", "_codecs", "_collections", "_csv", "_functools", "_heapq", "_io", "_json", "_operator",
    "_pickle", "_struct", "_sre",
})  # fmt: skip
BUILTINS = {
    "print": "prints, which a cache would silence",
    "input": "asks the user",
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "runs text as code",
    "__import__": "imports by name",
    "globals": "reaches for all names of the module",
    "setattr": "changes an object by name",
    "delattr": "changes an object by name",
    "id": "depends on where an object lies in memory",
}
# Names of methods and functions that draw, or read a clock, whatever object they are called on.
CHANCE = re.compile(
    r"^(random|rand|randn|randu|randint|randrange|random_sample|uniform|normal|standard_normal|truncated_normal|integers|choice|choices"
    r"|sample|shuffle|permutation|permuted|binomial|poisson|exponential|gauss|getrandbits|now|today|utcnow|perf_counter|monotonic|urandom"
    r"|kmeans|effect_noise|theRNG|timestamp)$"
    r"|^random_|_random$|^sample_|^dropout|^Random[A-Z]|Dropout|GaussianNoise"
)
# Words that a library takes for the clock: np.datetime64("now").
CLOCK = frozenset({"now", "today"})
# Functions whose result is whatever lies in memory.
UNSET = frozenset({"empty", "empty_like"})
# Functions that change an object's attributes, or a module's names, by name.
BY_NAME = frozenset({"setattr", "delattr", "vars", "globals", "__setattr__", "__delattr__"})
# Functions of libraries that write files.
WRITES = re.compile(r"^(write_|imwrite$|save|dump$|tofile$|rmtree$|remove$|makedirs$)")
# Methods that change the object they are called on, or move its position.
MUTATORS = frozenset({
    "add", "append", "appendleft", "assign", "assign_add", "assign_sub", "byteswap", "clear", "close", "difference_update",
    "discard", "extend", "extendleft", "fill", "insert", "intersection_update", "itemset", "move_to_end", "next", "pop",
    "popitem", "popleft", "put", "read", "readinto", "readline", "readlines", "remove", "reverse", "rotate", "seed", "seek",
    "send", "set_state", "setdefault", "setflags", "setfield", "sort", "subtract", "symmetric_difference_update", "throw",
    "truncate", "update", "write", "writelines", "__next__", "__setitem__", "__delitem__", "__iadd__", "__setattr__",
})  # fmt: skip
# Methods that change files, on whatever object.
WRITERS = frozenset({
    "write_text", "write_bytes", "unlink", "touch", "mkdir", "makedirs", "rmdir", "rename", "replace_with", "symlink_to",
})  # fmt: skip
# Functions that change their first argument.
CHANGES_ARGUMENT = frozenset({
    "copyto", "put", "place", "putmask", "fill_diagonal", "heappush", "heappop", "heapify", "heapreplace", "insort",
    "setitem", "delitem", "next",
})  # fmt: skip
# Functions whose result shares nothing with their arguments.
FRESH_RESULT = frozenset({
    "array", "copy", "deepcopy", "len", "str", "int", "float", "bool", "bytes", "sum", "any", "all", "abs", "round", "ord",
    "chr", "repr", "hash", "isinstance", "range", "take", "stack", "concatenate", "where", "pad", "mean", "std", "min",
    "max", "dot", "interp", "searchsorted", "zeros_like", "ones_like",
})  # fmt: skip


def changing(module: str) -> str | None:
    """What a module does that is more than a function of arguments, or None. `module` is dotted; what it lies in counts too."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        reason = CHANGING.get(".".join(parts[:end]))
        if reason is not None:
            return reason
    return None


def library(module: str) -> bool:
    """Whether a module belongs to a library that is taken to compute from its arguments."""
    return module.split(".")[0] in LIBRARIES
