// SPDX-License-Identifier: Apache-2.0
// Aggregations over columns: group-by, priority sweep, coverage.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"
#include "saturate.h"

namespace {

struct Boundary {
  int64_t at;
  uint8_t priority;
  bool opens;
};

// At one instant ends come before starts, and higher priorities first.
bool before(const Boundary& a, const Boundary& b) {
  if (a.at != b.at) return a.at < b.at;
  if (a.opens != b.opens) return !a.opens;
  return a.priority > b.priority;
}

// Walk the boundaries of one window's spans and hand each stretch of time to the highest open priority. A span without duration holds no
// time. (The reference lets it stand open until the next span of its priority ends: ToNonOverlappedEvents in event_span.cc. So an instant
// that a runtime notes before a gap makes the gap a piece of work, and half of all events are instants.)
void sweep_window(std::vector<Boundary>& boundaries, int64_t begin, int64_t end, uint32_t priorities, int64_t* out) {
  std::sort(boundaries.begin(), boundaries.end(), before);
  std::vector<int64_t> open(priorities, 0);
  uint32_t highest = 0;
  int64_t now = begin;
  for (const Boundary& boundary : boundaries) {
    if (boundary.at > now) {
      out[highest] += boundary.at - now;
      now = boundary.at;
    }
    if (boundary.opens) {
      ++open[boundary.priority];
      highest = std::max<uint32_t>(highest, boundary.priority);
    } else if (--open[boundary.priority] == 0 && boundary.priority == highest) {
      do --highest;
      while (highest > 0 && open[highest] <= 0);
    }
  }
  if (end > now) out[0] += end - now;
}

}  // namespace

extern "C" {

int32_t ox_group(uint64_t events, const int32_t* key, const uint8_t* mask, const int64_t* duration_ps, const int64_t* self_ps, uint64_t keys,
              int64_t* count, int64_t* total, int64_t* self_total, int64_t* smallest, int64_t* largest) {
  return outpace::guarded([&] {
    for (uint64_t k = 0; k < keys; ++k) {
      count[k] = total[k] = self_total[k] = largest[k] = 0;
      smallest[k] = INT64_MAX;
    }
    for (uint64_t i = 0; i < events; ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      const int32_t k = key[i];
      if (k < 0 || static_cast<uint64_t>(k) >= keys) continue;
      ++count[k];
      total[k] = outpace::add(total[k], duration_ps[i]);
      self_total[k] = outpace::add(self_total[k], self_ps[i]);
      smallest[k] = std::min(smallest[k], duration_ps[i]);
      largest[k] = std::max(largest[k], duration_ps[i]);
    }
  });
}

int32_t ox_sweep(uint64_t spans, const int32_t* group, const uint8_t* priority, const int64_t* start_ps, const int64_t* end_ps,
              uint64_t windows, const int64_t* begin, const int64_t* end, uint32_t priorities, int32_t threads, int64_t* out) {
  return outpace::guarded([&] {
    const auto counts = [&](uint64_t i) {
      return group[i] >= 0 && static_cast<uint64_t>(group[i]) < windows && priority[i] != 0 && priority[i] < priorities;
    };
    // Spans of window w stand at span[first[w]] to span[first[w + 1]] (a counting sort).
    std::vector<uint64_t> first(windows + 2, 0);
    for (uint64_t i = 0; i < spans; ++i) {
      if (counts(i)) ++first[group[i] + 2];
    }
    for (uint64_t w = 2; w < first.size(); ++w) first[w] += first[w - 1];
    std::vector<uint32_t> span(first.back());
    for (uint64_t i = 0; i < spans; ++i) {
      if (counts(i)) span[first[group[i] + 1]++] = static_cast<uint32_t>(i);
    }
    outpace::parallel(windows, threads, [&](uint64_t w) { return first[w + 1] - first[w]; },
                      [&, boundaries = std::vector<Boundary>()](uint64_t w) mutable {
                        boundaries.clear();
                        for (uint64_t k = first[w]; k < first[w + 1]; ++k) {
                          const uint32_t i = span[k];
                          const int64_t from = std::max(start_ps[i], begin[w]), to = std::min(end_ps[i], end[w]);
                          if (from >= to) continue;
                          boundaries.push_back({from, priority[i], true});
                          boundaries.push_back({to, priority[i], false});
                        }
                        sweep_window(boundaries, begin[w], end[w], priorities, out + w * priorities);
                      });
  });
}

int32_t ox_cover(uint64_t spans, const int64_t* start_ps, const int64_t* end_ps, int64_t begin, int64_t end, int64_t* covered,
              int64_t* summed) {
  return outpace::guarded([&] {
    int64_t reached = begin;
    *covered = *summed = 0;
    for (uint64_t i = 0; i < spans; ++i) {
      const int64_t from = std::max(start_ps[i], begin);
      const int64_t to = std::min(end_ps[i], end);
      if (from >= to) continue;
      *summed = outpace::add(*summed, to - from);
      if (to > reached) {
        *covered += to - std::max(from, reached);
        reached = to;
      }
    }
  });
}

}  // extern "C"
