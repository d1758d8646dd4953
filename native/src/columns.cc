// The second pass: events to columns, and stats on demand.
#include <algorithm>
#include <numeric>

#include "parallel.h"
#include "space.h"

namespace outpace {
namespace {

struct Event {
  int64_t name_id = 0;
  int64_t offset_ps = 0;
  int64_t duration_ps = 0;
  int64_t occurrences = 0;
};

// Call visit(message) for each XEvent of a segment.
template <class Visit>
void each_event(const Segment& segment, Visit visit) {
  Reader line(segment.begin, segment.end);
  while (line.more()) {
    const uint64_t field = line.varint();
    if (field == tag(4, kBytes)) visit(line.message());
    else line.skip(field);
  }
}

Event read_event(Reader& message) {
  Event event;
  while (message.more()) {
    const uint64_t field = message.varint();
    switch (field) {
      case tag(1, kVarint): event.name_id = static_cast<int64_t>(message.varint()); break;
      case tag(2, kVarint): event.offset_ps = static_cast<int64_t>(message.varint()); break;
      case tag(3, kVarint): event.duration_ps = static_cast<int64_t>(message.varint()); break;
      case tag(5, kVarint): event.occurrences = static_cast<int64_t>(message.varint()); break;
      default: message.skip(field);
    }
  }
  return event;
}

// start = (timestamp - origin) * 1000 + offset, kept in range; returns whether it had to be clamped.
bool place(const Event& event, int64_t timestamp_ns, int64_t origin_ns, int64_t* start, int64_t* duration) {
  constexpr int64_t kLimit = INT64_MAX / 4;  // ends and sums of two still fit
  __int128 at = (static_cast<__int128>(timestamp_ns) - origin_ns) * 1000 + event.offset_ps;
  bool clamped = at > kLimit || at < -kLimit || event.duration_ps < 0 || event.duration_ps > kLimit;
  *start = static_cast<int64_t>(std::clamp<__int128>(at, -kLimit, kLimit));
  *duration = std::clamp<int64_t>(event.duration_ps, 0, kLimit);
  return clamped;
}

struct Columns {
  int32_t* name;
  int64_t* start;
  int64_t* duration;
};

bool in_order(const int64_t* start, const int64_t* duration, uint64_t count) {
  for (uint64_t i = 1; i < count; ++i) {
    if (start[i] < start[i - 1] || (start[i] == start[i - 1] && duration[i] > duration[i - 1])) return false;
  }
  return true;
}

// Bring a line's events into (start, longer first) order and remember where each file position went.
void sort_line(Line& line, Columns c) {
  std::vector<uint32_t> order(line.events);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return c.start[a] != c.start[b] ? c.start[a] < c.start[b] : c.duration[a] > c.duration[b];
  });
  line.row_of.resize(line.events);
  std::vector<int64_t> start(line.events), duration(line.events);
  std::vector<int32_t> name(line.events);
  for (uint32_t row = 0; row < order.size(); ++row) {
    const uint32_t from = order[row];
    line.row_of[from] = row;
    start[row] = c.start[from];
    duration[row] = c.duration[from];
    name[row] = c.name[from];
  }
  std::copy(start.begin(), start.end(), c.start);
  std::copy(duration.begin(), duration.end(), c.duration);
  std::copy(name.begin(), name.end(), c.name);
}

void decode_line(ox_space& space, Line& line, Columns all) {
  const Columns c{all.name + line.first_event, all.start + line.first_event, all.duration + line.first_event};
  const Plane& plane = space.planes[line.plane];
  const auto unknown = static_cast<int32_t>(space.event_names.size());
  std::vector<std::pair<uint64_t, int64_t>> aggregated;
  uint64_t i = 0, clamped = 0;
  for (const Segment& segment : line.segments) {
    each_event(segment, [&](Reader message) {
      const uint8_t* begin = message.at;
      const Event event = read_event(message);
      space.check(message, begin, static_cast<int32_t>(line.plane));
      c.name[i] = plane.event_names.get(event.name_id, unknown);
      clamped += place(event, segment.timestamp_ns, space.origin_ns, &c.start[i], &c.duration[i]);
      if (event.occurrences != 0) aggregated.emplace_back(i, event.occurrences);
      ++i;
    });
  }
  line.row_of.clear();
  if (!in_order(c.start, c.duration, line.events)) sort_line(line, c);
  for (auto& [row, count] : aggregated) row = line.first_event + (line.row_of.empty() ? row : line.row_of[row]);
  const std::lock_guard<std::mutex> hold(space.lock);
  space.clamped += clamped;
  space.aggregated.insert(space.aggregated.end(), aggregated.begin(), aggregated.end());
}

}  // namespace
}  // namespace outpace

struct ox_stats {
  struct Entry {
    int32_t row;
    int32_t stat_name;
    uint64_t value;
    uint32_t length;
    uint8_t kind;
  };
  using Columns = std::vector<std::vector<Entry>>;
  std::vector<Columns> by_line;
  uint32_t columns = 0;
};

namespace outpace {
namespace {

void find_in_line(const ox_space& space, const Line& line, const int32_t* column, uint64_t begin, uint64_t end, ox_stats::Columns& out) {
  if (line.first_event >= end || line.first_event + line.events <= begin) return;
  const IdMap& names = space.planes[line.plane].stat_names;
  uint64_t i = 0;
  for (const Segment& segment : line.segments) {
    each_event(segment, [&](Reader event) {
      const uint64_t row = line.first_event + (line.row_of.empty() ? i : line.row_of[i]);
      ++i;
      if (row < begin || row >= end) return;
      while (event.more()) {
        const uint64_t field = event.varint();
        if (field != tag(4, kBytes)) {
          event.skip(field);
          continue;
        }
        const Reader message = event.message();
        Reader head = message;  // the id usually comes first: an unwanted stat costs two bytes
        if (head.varint() == tag(1, kVarint)) {
          const int32_t early = names.get(static_cast<int64_t>(head.varint()), -1);
          if (early < 0 || column[early] < 0) continue;
        }
        Stat stat = read_stat(message, space);
        const int32_t name = names.get(static_cast<int64_t>(stat.id), -1);
        if (name < 0 || column[name] < 0) continue;
        resolve(stat, names);
        out[column[name]].push_back({static_cast<int32_t>(row), name, stat.value, stat.length, stat.kind});
      }
    });
  }
  if (line.row_of.empty()) return;
  for (auto& entries : out) {
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
  }
}

}  // namespace
}  // namespace outpace

extern "C" {

int32_t ox_events(ox_space* space, int32_t threads, int32_t* name, int64_t* start_ps, int64_t* duration_ps) {
  if (space->events > INT32_MAX) return -1;  // rows are int32: streaming is the way for such files
  space->aggregated.clear();
  space->clamped = 0;
  outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; },
                    [&](uint64_t i) { outpace::decode_line(*space, space->lines[i], {name, start_ps, duration_ps}); });
  std::sort(space->aggregated.begin(), space->aggregated.end());
  return 0;
}

ox_stats* ox_find_stats(const ox_space* space, const int32_t* column, uint32_t columns, uint64_t begin, uint64_t end, int32_t threads) {
  auto* stats = new ox_stats;
  stats->columns = columns;
  stats->by_line.resize(space->lines.size());
  outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; }, [&](uint64_t i) {
    stats->by_line[i].resize(columns);
    outpace::find_in_line(*space, space->lines[i], column, begin, end, stats->by_line[i]);
  });
  return stats;
}

void ox_stats_bounds(const ox_stats* stats, uint64_t* first) {
  first[0] = 0;
  for (uint32_t c = 0; c < stats->columns; ++c) {
    first[c + 1] = first[c];
    for (const auto& line : stats->by_line) first[c + 1] += line[c].size();
  }
}

void ox_stats_take(const ox_stats* stats, int32_t* row, int32_t* stat_name, uint8_t* kind, uint64_t* value, uint32_t* length) {
  uint64_t i = 0;
  for (uint32_t c = 0; c < stats->columns; ++c) {
    for (const auto& line : stats->by_line) {
      for (const auto& entry : line[c]) {
        row[i] = entry.row;
        stat_name[i] = entry.stat_name;
        kind[i] = entry.kind;
        value[i] = entry.value;
        length[i] = entry.length;
        ++i;
      }
    }
  }
}

void ox_stats_close(ox_stats* stats) { delete stats; }

}  // extern "C"
