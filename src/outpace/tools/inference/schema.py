# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about inference."""

from outpace.metrics.facts.step_breakdown import CATEGORY_FIELDS
from outpace.model import TableType

REQUESTS = TableType("requests", "Requests", shared=CATEGORY_FIELDS).columns("""
    * host          | text  | host that answered
    * request       | count | place in the capture, from 0
      function      | text  | function that was called
      start_ps      | ps    | start of the call, counted from the earliest event of its host | Start
    + latency_ps    | ps    | from the start of the call to its end | Latency
    + before_ps     | ps    | time since the request before ended: input, Python around the call, or nothing to do | Before
    + ...
      longest_op    | text  | op with the most self time of the request, on any thread
      longest_op_ps | ps    | its self time | Its time
""")

LATENCY = TableType("latency", "Latency").columns("""
    * host     | text  | host that answered
    * function | text  | function that was called
    + requests | count | calls in the capture
      mean_ps  | ps    | mean latency | Mean
      p50_ps   | ps    | half of the calls were faster | Median
      p90_ps   | ps    | 90% of the calls were faster | p90
      p99_ps   | ps    | 99% of the calls were faster (interpolated: with fewer than 100 calls close to the longest) | p99
      max_ps   | ps    | the longest call | Longest
      rate     | ratio | calls per second between the first start and the last end | Per second
""")

HISTOGRAM = TableType("histogram", "Calls by latency").columns("""
    * latency  | text  | range of latencies
    + requests | count | calls in it
""")
