"""Columns of the tables about requests."""

from outpace.model import Category, Field, Unit

REQUESTS = (
    Field("host", Unit.TEXT, "host that answered"),
    Field("request", Unit.COUNT, "place in the capture, from 0"),
    Field("function", Unit.TEXT, "function that was called"),
    Field("start_ps", Unit.PS, "start of the call, counted from the earliest event of its host", "Start"),
    Field("latency_ps", Unit.PS, "from the start of the call to its end", "Latency"),
    Field(
        "before_ps", Unit.PS, "time since the request before ended: input, Python around the call, or nothing to do", "Before"
    ),
    *(Field(f"{c.value}_ps", Unit.PS, c.meaning, c.label) for c in Category),
    Field("longest_op", Unit.TEXT, "op with the most self time of the request, on any thread"),
    Field("longest_op_ps", Unit.PS, "its self time", "Its time"),
)

LATENCY = (
    Field("host", Unit.TEXT, "host that answered"),
    Field("function", Unit.TEXT, "function that was called"),
    Field("requests", Unit.COUNT, "calls in the capture"),
    Field("mean_ps", Unit.PS, "mean latency", "Mean"),
    Field("p50_ps", Unit.PS, "half of the calls were faster", "Median"),
    Field("p90_ps", Unit.PS, "90% of the calls were faster", "p90"),
    Field(
        "p99_ps",
        Unit.PS,
        "99% of the calls were faster (interpolated: with fewer than 100 calls close to the longest)",
        "p99",
    ),
    Field("max_ps", Unit.PS, "the longest call", "Longest"),
    Field("rate", Unit.RATIO, "calls per second between the first start and the last end", "Per second"),
)

HISTOGRAM = (
    Field("latency", Unit.TEXT, "range of latencies"),
    Field("requests", Unit.COUNT, "calls in it"),
)
