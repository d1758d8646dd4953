// SPDX-License-Identifier: Apache-2.0
// One event of a line, and the part of the time whose events count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire.h"

namespace outpace {

struct Event {
  int64_t name_id = 0;
  int64_t offset_ps = 0;
  int64_t duration_ps = 0;
  int64_t occurrences = 0;
};

// Read one XEvent; visit(stat) for each of its stats.
template <class Visit>
Event read_event(Reader& message, Visit visit) {
  Event event;
  while (message.more()) {
    const uint64_t field = message.varint();
    switch (field) {
      case tag(1, kVarint): event.name_id = static_cast<int64_t>(message.varint()); break;
      case tag(2, kVarint): event.offset_ps = static_cast<int64_t>(message.varint()); break;
      case tag(3, kVarint): event.duration_ps = static_cast<int64_t>(message.varint()); break;
      case tag(4, kBytes): visit(message.message()); break;
      case tag(5, kVarint): event.occurrences = static_cast<int64_t>(message.varint()); break;
      default: message.skip(field);
    }
  }
  return event;
}

// start = (timestamp - origin) * 1000 + offset, kept in range; returns whether it had to be clamped.
inline bool place(const Event& event, int64_t timestamp_ns, int64_t origin_ns, int64_t* start, int64_t* duration) {
  constexpr int64_t kLimit = INT64_MAX / 4;  // ends and sums of two still fit
  __int128 at = (static_cast<__int128>(timestamp_ns) - origin_ns) * 1000 + event.offset_ps;
  bool clamped = at > kLimit || at < -kLimit || event.duration_ps < 0 || event.duration_ps > kLimit;
  *start = static_cast<int64_t>(std::clamp<__int128>(at, -kLimit, kLimit));
  *duration = std::clamp<int64_t>(event.duration_ps, 0, kLimit);
  return clamped;
}

constexpr int64_t kFar = int64_t{1} << 56;  // ps, 20 hours: a time that is further away is none, and in no window

// ps from the origin, [begin, end): what lies in it counts, or (`touching`) whatever reaches into it.
struct Window {
  int64_t begin = INT64_MIN, end = INT64_MAX;
  bool touching = false;

  bool whole() const { return begin == INT64_MIN && end == INT64_MAX; }
  bool holds(int64_t start, int64_t duration) const {
    if (start >= end || ((start >= kFar || start <= -kFar) && !whole())) return false;
    return touching ? start >= begin || start + duration > begin : start >= begin && start + duration <= end;
  }
  bool holds(Reader message, int64_t timestamp_ns, int64_t origin_ns) const {
    int64_t start, duration;
    place(read_event(message, [](const Reader&) {}), timestamp_ns, origin_ns, &start, &duration);
    return holds(start, duration);
  }
};

}  // namespace outpace
