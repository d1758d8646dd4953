// SPDX-License-Identifier: Apache-2.0
// A part of the time: which events count, and where in the file they stand.
#include <utility>

#include "guard.h"
#include "parallel.h"
#include "space.h"

namespace outpace {
namespace {

struct Span {
  int64_t first = INT64_MAX, last = INT64_MIN;

  void add(int64_t start, int64_t end) {
    first = std::min(first, start);
    last = std::max(last, end);
  }
  void add(const Span& other) { add(other.first, other.last); }
};

#ifndef OX_STRETCH
#define OX_STRETCH 4096  // the tests of the core make it as small as it can be
#endif
constexpr uint64_t kStretch = OX_STRETCH;  // events: of a part of the time, only the stretches that it meets are read again

int64_t saturated(__int128 at) { return static_cast<int64_t>(std::clamp<__int128>(at, -INT64_MAX, INT64_MAX)); }

// What ox_open has not noted of a segment.
void survey(const ox_space& space, Segment& segment) {
  Fields fields(space.source, segment.begin, segment.end);
  uint64_t seen = 0;
  Segment noted;
  while (fields.next(kEvent)) noted.note(fields, seen++);
  if (seen != segment.events) refuse(OX_CHANGED);
  segment.stretches = std::move(noted.stretches);
}

// The first start and the last end of a stretch, ps from the origin.
Span placed(const ox_space& space, const Segment& segment, const Stretch& stretch) {
  const __int128 from = (static_cast<__int128>(segment.timestamp_ns) - space.origin_ns) * 1000;
  return {saturated(from + stretch.first), saturated(from + stretch.last)};
}

// Call visit(start, duration, where it begins and ends in the file) for each event of a segment's stretch.
template <class Visit>
void each_of(const ox_space& space, const Segment& segment, size_t stretch, Visit visit) {
  const bool last = stretch + 1 == segment.stretches.size();
  Fields fields(space.source, segment.stretches[stretch].at, last ? segment.end : segment.stretches[stretch + 1].at);
  while (fields.next(kEvent)) {
    Reader message = fields.message();
    int64_t start, duration;
    place(read_event(message, [](const Reader&) {}), segment.timestamp_ns, space.origin_ns, &start, &duration);
    visit(start, duration, fields.begin, fields.to);
  }
}

// The first start and the last end of a line's events, but for times that cannot be.
Span span_of(const ox_space& space, const Line& line) {
  Span span;
  for (const Segment& segment : line.segments) {
    for (size_t i = 0; i < segment.stretches.size(); ++i) {
      const Span times = placed(space, segment, segment.stretches[i]);
      if (times.first > -kFar && times.last < kFar && times.last - times.first < kFar) {  // so none of them is impossible
        span.add(times);
        continue;
      }
      each_of(space, segment, i, [&](int64_t start, int64_t duration, uint64_t, uint64_t) {
        if (start > -kFar && start < kFar && duration < kFar) span.add(start, start + duration);
      });
    }
  }
  return span;
}

// Count a line's events in the window, and leave out the bytes before its first and behind its last one, so that later passes cost what the
// window holds.
void narrow(const ox_space& space, Line& line, const Window& window) {
  line.events = 0;
  for (Segment& segment : line.segments) {
    uint64_t begin = segment.end, end = segment.end, kept = 0;
    for (size_t i = 0; i < segment.stretches.size(); ++i) {
      const Span times = placed(space, segment, segment.stretches[i]);
      if (times.first >= window.end || times.last < window.begin) continue;
      each_of(space, segment, i, [&](int64_t start, int64_t duration, uint64_t from, uint64_t to) {
        if (!window.holds(start, duration)) return;
        if (kept++ == 0) begin = from;
        end = to;
      });
    }
    segment.begin = begin;
    segment.end = end;
    segment.events = kept;
    segment.stretches.clear();
    line.events += kept;
  }
}

}  // namespace

void Segment::note(Fields& fields, uint64_t number) {
  if (number % kStretch == 0) stretches.push_back({fields.begin, INT64_MAX, INT64_MIN});
  Reader message = fields.message();
  const Event event = read_event(message, [](const Reader&) {});
  Stretch& stretch = stretches.back();
  stretch.first = std::min(stretch.first, event.offset_ps);
  stretch.last = std::max(stretch.last, saturated(static_cast<__int128>(event.offset_ps) + std::max<int64_t>(event.duration_ps, 0)));
}

}  // namespace outpace

extern "C" {

int32_t ox_window(ox_space* space, int64_t begin_ps, int64_t end_ps, int32_t touching, int32_t threads, int64_t* first_ps, int64_t* last_ps) {
  return outpace::guarded([&] {
    const outpace::Window window{begin_ps, end_ps, touching != 0};
    std::vector<outpace::Segment*> unseen;
    for (outpace::Line& line : space->lines) {
      for (outpace::Segment& segment : line.segments) {
        if (segment.stretches.empty()) unseen.push_back(&segment);
      }
    }
    outpace::parallel(unseen.size(), threads, [&](uint64_t i) { return unseen[i]->events; }, [&](uint64_t i) { outpace::survey(*space, *unseen[i]); });
    outpace::Span all;
    for (const outpace::Line& line : space->lines) all.add(outpace::span_of(*space, line));
    if (!window.whole()) {
      outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; },
                        [&](uint64_t i) { outpace::narrow(*space, space->lines[i], window); });
    }
    space->window = window;
    space->events = 0;
    for (outpace::Line& line : space->lines) {
      line.first_event = space->events;
      space->events += line.events;
    }
    const bool none = all.first > all.last;
    *first_ps = none ? 0 : all.first;
    *last_ps = none ? 0 : all.last;
  });
}

}  // extern "C"
