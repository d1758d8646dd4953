// A part of the time: which events count, and where in the file they stand.
#include <mutex>

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
};

// Count a line's events in the window, and leave out the bytes before its first and behind its last one, so that later passes cost what the
// window holds. Adds all of its events to `span`.
void narrow(const ox_space& space, Line& line, const Window& window, Span& span) {
  line.events = 0;
  for (Segment& segment : line.segments) {
    Reader messages(segment.begin, segment.end);
    const uint8_t *begin = segment.end, *end = segment.end;
    uint64_t seen = 0, kept = 0;
    while (messages.more()) {
      const uint8_t* at = messages.at;
      const uint64_t field = messages.varint();
      if (field != tag(4, kBytes)) {
        messages.skip(field);
        continue;
      }
      Reader message = messages.message();
      if (!messages.whole()) break;  // what read_segment did not count
      ++seen;
      int64_t start, duration;
      place(read_event(message, [](const Reader&) {}), segment.timestamp_ns, space.origin_ns, &start, &duration);
      if (start > -kFar && start < kFar && duration < kFar) span.add(start, start + duration);
      if (!window.holds(start, duration)) continue;
      if (kept++ == 0) begin = at;
      end = messages.at;
    }
    if (seen != segment.events) refuse(OX_CHANGED);
    segment.begin = begin;
    segment.end = end;
    segment.events = kept;
    line.events += kept;
  }
}

}  // namespace
}  // namespace outpace

extern "C" {

int32_t ox_window(ox_space* space, int64_t begin_ps, int64_t end_ps, int32_t touching, int32_t threads, int64_t* first_ps, int64_t* last_ps) {
  return outpace::guarded([&] {
    const outpace::Window window{begin_ps, end_ps, touching != 0};
    outpace::Span all;
    std::mutex adding;
    outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; }, [&](uint64_t i) {
      outpace::Span span;
      outpace::narrow(*space, space->lines[i], window, span);
      const std::lock_guard<std::mutex> hold(adding);
      all.add(span.first, span.last);
    });
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
