# SPDX-License-Identifier: Apache-2.0
"""Random numbers of TensorFlow that are the same op by op, in a graph and compiled by XLA: a hash
of a seed and of each number's place.

The generators that these use differ (Philox and ThreeFry, and streams that count what each graph
has drawn); where two texts are compared all of them are replaced, but those of ops to which a
script gives a seed. Uniform, normal and truncated normal numbers, and what TensorFlow and Keras
make of them: dropout, initial values, noise; for other ops those stand in that take a seed. A
pipeline's functions may run in any order: what `map` is given comes with a key of its own, by the
iterator and the element's position in it, which is the seed; in functions of other stages the seed
is a hash of the element and the how manieth time it comes.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.frameworks import tensorflow

# The last two: an avalanche of 32 bits found by search (C. Wellons 2018).
_GOLDEN, _FIRST, _SECOND = 0x9E3779B9, 0x7FEB352D, 0x846CA68B


class Hashed:
    """Puts the hash in place of TensorFlow's generators. place: a number for the user's line that
    asks; line: the same in words.

    What the hash does not have is a fault of TensorFlow's own streams: of a script that sets a
    global seed, the first ops of two graphs that draw are given one seed, and draw the same numbers
    (`coupled`). hidden: what else of TensorFlow's own ways does not show with the hash, in words.
    """

    def __init__(self, tf: Any, place: Callable[[], int], line: Callable[[], str] = str) -> None:
        self._tf, self._place, self._line = tf, place, line
        self._seed: Any = None  # the script's own global one
        self._ranks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # ops that draw, by graph
        self._drawing: dict[tuple[Any, int], dict[Any, str]] = {}  # lines by function, by seed and rank
        self._traces: dict[tuple[Any, int, str], weakref.WeakSet[Any]] = {}  # graphs, by seed, rank and line
        self.hidden: set[str] = set()
        self._counts: dict[tuple[int, bool], Any] = {}  # by place, and whether that is in a graph
        self._base = 0  # of the script's own global seed
        self._tables: dict[int, Any] = {}
        self._asked: dict[tuple[int, int], int] = {}  # by graph and line
        self._keys = threading.local()

    def install(self, seed: int) -> None:
        """Under all names that a function has. seed: of the keys of a pipeline's elements."""
        self._tf.data.Dataset.map = self._keyed(self._tf.data.Dataset.map, seed)
        for kind, name in tensorflow.STATELESS_RANDOM.items():
            if name.value is not None:
                self._replace(name.value, self._stateless(kind))
        for kind, name in tensorflow.STATEFUL_RANDOM.items():
            if name.value is not None:
                self._replace(name.value, self._stateful(name.value, kind))
        self._replace(self._tf.random.set_seed, self._seeding(self._tf.random.set_seed))
        for name, twin in tensorflow.RANDOM_TWINS:
            if name.value is not None and twin.value is not None:
                self._replace(name.value, self._by_twin(name.value, twin.value))

    def _seeding(self, plain: Callable[[Any], None]) -> Callable[[Any], None]:
        """What TensorFlow makes of a seed: ops that run by themselves begin anew, by it; a graph
        keeps what it was traced with.
        """

        def set_seed(seed: Any) -> None:
            plain(seed)
            self._seed = seed
            self._base = int(seed or 0) * _GOLDEN
            with self._tf.init_scope():
                for (_, is_in_graph), count in self._counts.items():
                    if not is_in_graph:
                        count.assign(0)

        return set_seed

    def _keyed(self, plain: Any, seed: int) -> Any:
        """`map` of a data set whose elements come with their keys, which the function's draws take:
        the same numbers however many of its calls run at once, whatever another stage has done to
        the element before, and others in each epoch.
        """
        tf, keys = self._tf, self._keys

        @functools.wraps(plain)
        def map_(this: Any, map_func: Any, *args: Any, **kwargs: Any) -> Any:
            status = tensorflow.CONVERSION_STATUS.value()
            plainly = getattr(map_func, "python_function", map_func)  # in the pipeline's own graph, where the key is
            if plainly is not map_func:
                self.hidden.add(
                    f"what {getattr(plainly, '__name__', 'a function of map')} keeps where it is compiled by itself"
                )
            users = tensorflow.CONVERT.value(plainly, status)
            order = "in parallel" if len(args) > 0 or kwargs.get("num_parallel_calls") else "one by one"

            @functools.wraps(map_func, updated=())
            def function(element: Any, key: Any) -> Any:
                outer, keys.current, keys.order = getattr(keys, "current", None), key, order
                try:
                    return users(*element) if type(element) is tuple else users(element)
                finally:
                    keys.current = outer

            drawn = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
            unconverted = tf.autograph.experimental.do_not_convert(function)
            return plain(tf.data.Dataset.zip((this, drawn)), unconverted, *args, **kwargs)

        return map_

    def _replace(self, plain: Any, ours: Any) -> None:
        made = functools.wraps(plain)(ours)
        frameworks = [each for name, each in list(sys.modules.items()) if name.startswith(("tensorflow", "keras", "tf_keras"))]
        for module in frameworks:
            for name, value in list(vars(module).items()):
                if value is plain:
                    setattr(module, name, made)

    def _stateless(self, kind: str) -> Callable[..., Any]:
        def draw(shape: Any, seed: Any, *args: Any, **kwargs: Any) -> Any:
            kwargs.pop("alg", None)
            graph = pipeline_of(self._tf) if _is_keras(sys._getframe(1)) else None  # whose generators count their draws
            key = self._tf.cast(seed, self._tf.int64) if graph is None else self._of_element(graph, self._place())
            return self.draw(kind, shape, key, *args, **kwargs)

        return draw

    def _stateful(self, plain: Any, kind: str) -> Callable[..., Any]:
        def draw(shape: Any, *args: Any, seed: Any = None, **kwargs: Any) -> Any:
            key = self._key(seed)
            return plain(shape, *args, seed=seed, **kwargs) if key is None else self.draw(kind, shape, key, *args, **kwargs)

        return draw

    def _by_twin(self, plain: Callable[..., Any], twin: Callable[..., Any]) -> Callable[..., Any]:
        """The same numbers in a graph and outside of it."""
        signature = inspect.signature(plain)

        def draw(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()  # which the other op may have otherwise
            key = self._key(bound.arguments["seed"])
            given = {
                name: value for name, value in bound.arguments.items() if name not in ("seed", "name") and value is not None
            }
            return plain(*args, **kwargs) if key is None else twin(**given, seed=key)

        return draw

    def _key(self, seed: Any) -> Any:
        """What the op at the user's line draws by; None where that is its own: two ops of one seed
        draw the same in a graph, and not where each runs by itself.
        """
        graph, place = pipeline_of(self._tf), self._place() ^ (0 if seed is None else int(seed))
        if graph is not None:
            if seed is not None:  # whose own numbers come in the order of the calls
                order = getattr(self._keys, "order", "one by one")
                self.hidden.add(f"which random numbers of {self._line()} come to which element, {order}")
            return self._of_element(graph, place)
        if seed is None and self._seed is not None and self._tf.inside_function():
            self._note()
        return self._counted(place) if seed is None else None

    def _note(self) -> None:
        """An op of a graph draws by the seed that its rank in it gives."""
        graph = self._tf.compat.v1.get_default_graph()
        rank = self._ranks[graph] = self._ranks.get(graph, 0) + 1
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            function = frame.f_locals.get("self") if frame.f_code.co_name == "__call__" else None
            if function is not None and hasattr(function, "python_function"):
                line = self._line()
                self._drawing.setdefault((self._seed, rank), {})[function] = line
                graphs = self._traces.setdefault((self._seed, rank, line), weakref.WeakSet())
                graphs.add(graph)
                if len(graphs) > 1:
                    self.hidden.add(f"random numbers of {line}, which are the same in each trace of its function")
                return
            frame = frame.f_back

    @property
    def coupled(self) -> frozenset[str]:
        """Lines, in pairs, whose ops draw the same numbers in the graphs of two functions."""
        alike = (sorted(lines.values()) for lines in self._drawing.values())
        return frozenset(f"{one} and {other}" for lines in alike for one, other in itertools.pairwise(lines))

    def _counted(self, place: int) -> Any:
        """A seed that moves on with each run of the user's line."""
        tf = self._tf
        key = place, bool(tf.inside_function())
        if key not in self._counts:
            with tf.init_scope():
                self._counts[key] = tf.Variable(0, dtype=tf.int64, trainable=False)
        count = self._counts[key].assign_add(1, read_value=True)
        return tf.stack([tf.constant((place + self._base) % 2**31, tf.int64), tf.cast(count, tf.int64)])

    def _of_element(self, graph: Any, place: int) -> Any:
        """A seed for the element that a function of a pipeline is given: by its key, else by what
        it is and the how manieth time it comes.
        """
        tf = self._tf
        asked = self._asked[id(graph), place] = self._asked.get((id(graph), place), 0) + 1
        place = (place + 0x9E3779B9 * asked) % 2**31
        if getattr(self._keys, "current", None) is not None:
            return tf.stack([self._keys.current, tf.constant(place, tf.int64)])
        if place not in self._tables:
            with tf.init_scope():
                self._tables[place] = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        key = tf.constant(place, tf.int64)
        for given in [each for each in graph.inputs if each.dtype not in (tf.resource, tf.variant)]:
            key = key * 1_000_003 + self._folded(given)
        seen = self._tables[place].lookup(key)
        with tf.control_dependencies([self._tables[place].insert(key, seen + 1)]):
            return tf.stack([key, tf.identity(seen) + place])

    def _folded(self, given: Any) -> Any:
        """A number for what a tensor holds; sums of whole numbers are the same in any order."""
        tf = self._tf
        if given.dtype == tf.string:
            held = tf.strings.to_hash_bucket_fast(given, 2**31 - 1)
        elif given.dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16):
            held = tf.bitcast(tf.cast(given, tf.float32), tf.int32)
        else:
            held = given
        held = tf.reshape(tf.cast(held, tf.int64), [-1])
        return tf.reduce_sum(held * (1 + tf.range(tf.size(held, out_type=tf.int64)) % 65_521))

    def draw(
        self,
        kind: str,
        shape: Any,
        seed: Any,
        first: Any = 0.0,
        second: Any = None,
        dtype: Any = None,
        name: str | None = None,
        **named: Any,
    ) -> Any:
        """Numbers of a kind; `first` and `second` are the bounds, or mean and standard
        deviation.
        """
        tf = self._tf
        first = named.get("minval", named.get("mean", first))
        second = named.get("maxval", named.get("stddev", second))
        dtype = tf.as_dtype(dtype or tf.float32)
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        if kind == "uniform":
            return self._uniform(shape, seed, first, second, dtype)
        mean, deviation = tf.cast(first, tf.float32), tf.cast(1.0 if second is None else second, tf.float32)
        one = self._unit(shape, seed, 0)
        if kind == "normal":
            pair = tf.sqrt(-2.0 * tf.math.log(one + 2.0**-25)) * tf.cos(6.2831853 * self._unit(shape, seed, 1))
        else:
            pair = 1.4142135 * tf.math.erfinv((2.0 * one - 1.0) * 0.9544997)  # within two standard deviations
        return tf.cast(mean + deviation * pair, dtype)

    def _uniform(self, shape: Any, seed: Any, low: Any, high: Any, dtype: Any) -> Any:
        tf = self._tf
        if dtype.is_integer:
            whole = self._whole_numbers(shape, seed)
            if low is None and high is None:
                return tf.cast(whole, dtype)
            low, high = tf.cast(0 if low is None else low, tf.int64), tf.cast(1 if high is None else high, tf.int64)
            return tf.cast(low + tf.math.floormod(whole, high - low), dtype)
        unit = self._unit(shape, seed, 0)
        low, high = 0 if low is None else low, 1 if high is None else high
        low, high = tf.cast(low, tf.float32), tf.cast(high, tf.float32)
        return tf.cast(low + unit * (high - low), dtype)

    def _whole_numbers(self, shape: Any, seed: Any) -> Any:
        """Whole numbers of 64 bits, all equally likely."""
        tf = self._tf
        low, high = (tf.cast(self._bits(shape, seed, part), tf.int64) for part in range(2))
        return tf.reshape(tf.bitwise.bitwise_or(tf.bitwise.left_shift(high, tf.constant(32, tf.int64)), low), shape)

    def _unit(self, shape: Any, seed: Any, part: int) -> Any:
        """Numbers from 0 to 1, without 1."""
        tf = self._tf
        shift = tf.bitwise.right_shift(self._bits(shape, seed, part), tf.constant(8, tf.uint32))
        return tf.reshape(tf.cast(shift, tf.float32) * 2.0**-24, shape)

    def _bits(self, shape: Any, seed: Any, part: int) -> Any:
        """The 32 bits of each number, in a row."""
        tf = self._tf
        seed = self._folded_seed(tf.cast(tf.reshape(seed, [-1]), tf.int64))
        at = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32) * tf.constant(_GOLDEN, tf.uint32)
        mixed = self._mixed(at + seed[0] + tf.constant(part * 0x51ED270B % 2**32, tf.uint32))
        return self._mixed(mixed + seed[-1] * tf.constant(_GOLDEN, tf.uint32))

    def _folded_seed(self, seed: Any) -> Any:
        """Seeds of 32 bits, which hang on all 64 of those that are given."""
        tf = self._tf
        half = tf.constant(32, tf.int64)
        low, high = (tf.cast(each, tf.uint32) for each in (seed, tf.bitwise.right_shift(seed, half)))
        return tf.bitwise.bitwise_xor(low, high * tf.constant(_FIRST, tf.uint32))

    def _mixed(self, bits: Any) -> Any:
        tf = self._tf

        def folded(value: Any, by: int) -> Any:
            return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(by, tf.uint32)))

        bits = folded(bits, 16) * tf.constant(_FIRST, tf.uint32)
        return folded(folded(bits, 15) * tf.constant(_SECOND, tf.uint32), 16)


def _is_keras(frame: FrameType) -> bool:
    """Whether code of Keras runs in a frame."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("keras", "tf_keras")


def pipeline_of(tf: Any) -> Any:
    """The graph of the function of a tf.data pipeline that is being traced; None outside of one,
    and in a `tf.function` that it calls, which other callers share.
    """
    graph: Any = tf.compat.v1.get_default_graph() if not tf.executing_eagerly() else None
    # The branches and bodies of control flow are of classes of their own.
    while graph is not None and type(graph) is not tensorflow.GRAPH_CLASS.value:
        graph = getattr(graph, "outer_graph", None)
    return graph if "Dataset_" in str(getattr(graph, "name", "")) else None
