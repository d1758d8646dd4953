// The second pass: events to columns, and stats on demand.
#include <algorithm>
#include <memory>
#include <numeric>

#include "guard.h"
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

[[gnu::cold, gnu::noinline]] uint64_t nameless_stats_of(Reader event, const IdMap& stat_names, const ox_space& space) {
  uint64_t count = 0;
  while (event.more()) {
    const uint64_t field = event.varint();
    if (field != tag(4, kBytes)) {
      event.skip(field);
      continue;
    }
    Stat stat = read_stat(event.message(), space);
    resolve(stat, stat_names);
    count += nameless(stat, stat_names);
  }
  return count;
}

void decode_line(ox_space& space, Line& line, bool is_damaged, Columns all) {
  const Columns c{all.name + line.first_event, all.start + line.first_event, all.duration + line.first_event};
  const Plane& plane = space.planes[line.plane];
  const auto unknown = static_cast<int32_t>(space.event_names.size());
  std::vector<std::pair<uint64_t, int64_t>> aggregated;
  uint64_t clamped = 0, nameless_stats = 0;
  each_event(line, [&](const Segment& segment, uint64_t i, Reader message) {
    const uint8_t* begin = message.at;
    if (is_damaged) nameless_stats += nameless_stats_of(message, plane.stat_names, space);
    const Event event = read_event(message);
    space.check(message, begin, static_cast<int32_t>(line.plane));
    c.name[i] = plane.event_names.get(event.name_id, unknown);
    clamped += place(event, segment.timestamp_ns, space.origin_ns, &c.start[i], &c.duration[i]);
    if (event.occurrences != 0) aggregated.emplace_back(i, event.occurrences);
  });
  line.row_of.clear();
  if (!in_order(c.start, c.duration, line.events)) sort_line(line, c);
  for (auto& [row, count] : aggregated) row = line.first_event + (line.row_of.empty() ? row : line.row_of[row]);
  const std::lock_guard<std::mutex> hold(space.lock);
  space.clamped += clamped;
  space.nameless_stats += nameless_stats;
  space.aggregated.insert(space.aggregated.end(), aggregated.begin(), aggregated.end());
}

}  // namespace
}  // namespace outpace

// A question for stats, with how many answers each (column, line) has and where they go.
struct ox_stats {
  const ox_space* space;
  std::vector<int32_t> column;  // of each stat name row, -1 for unwanted ones
  uint32_t columns;
  uint64_t begin, end;
  std::vector<uint64_t> first;  // of (column, line); columns * lines + 1 entries
};

namespace outpace {
namespace {

// Call visit(row, column, message) for every wanted stat of a line, in file order.
template <class Visit>
void each_wanted(const ox_stats& q, const Line& line, Visit visit) {
  if (line.first_event >= q.end || line.first_event + line.events <= q.begin) return;
  const IdMap& names = q.space->planes[line.plane].stat_names;
  each_event(line, [&](const Segment&, uint64_t i, Reader event) {
    const uint64_t row = line.first_event + (line.row_of.empty() ? i : line.row_of[i]);
    if (row < q.begin || row >= q.end) return;
    while (event.more()) {
      const uint64_t field = event.varint();
      if (field != tag(4, kBytes)) {
        event.skip(field);
        continue;
      }
      const Reader message = event.message();
      Reader head = message;  // the id usually comes first: an unwanted stat costs two bytes
      const uint64_t id = head.varint() == tag(1, kVarint) ? head.varint() : read_stat(message, *q.space).id;
      const int32_t name = names.get(static_cast<int64_t>(id), -1);
      if (name >= 0 && q.column[name] >= 0) visit(static_cast<int32_t>(row), q.column[name], message);
    }
  });
}

struct StatColumns {
  int32_t* row;
  uint8_t* kind;
  uint64_t* value;
  uint32_t* length;
};

// Bring the entries [first, last) of one column and line, found in file order, into row order.
void sort_entries(StatColumns out, uint64_t first, uint64_t last) {
  std::vector<uint64_t> order(last - first);
  std::iota(order.begin(), order.end(), first);
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return out.row[a] < out.row[b]; });
  const std::vector<int32_t> row(out.row + first, out.row + last);
  const std::vector<uint8_t> kind(out.kind + first, out.kind + last);
  const std::vector<uint64_t> value(out.value + first, out.value + last);
  const std::vector<uint32_t> length(out.length + first, out.length + last);
  for (uint64_t i = 0; i < order.size(); ++i) {
    const uint64_t from = order[i] - first;
    out.row[first + i] = row[from];
    out.kind[first + i] = kind[from];
    out.value[first + i] = value[from];
    out.length[first + i] = length[from];
  }
}

}  // namespace
}  // namespace outpace

extern "C" {

int32_t ox_events(ox_space* space, int32_t threads, int32_t* name, int64_t* start_ps, int64_t* duration_ps) {
  if (space->events > INT32_MAX) return OX_TOO_MANY;  // rows are int32: streaming is the way for such files
  return outpace::guarded([&] {
    space->aggregated.clear();
    space->clamped = space->nameless_stats = 0;
    const bool is_damaged = space->damages_total > 0;  // else nothing is lost, and to look at every stat would take time
    for (const outpace::OwnerStat& owner : space->owner_stats) {
      if (is_damaged) space->nameless_stats += outpace::nameless(owner.stat, space->planes[owner.plane].stat_names);
    }
    outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; },
                      [&](uint64_t i) { outpace::decode_line(*space, space->lines[i], is_damaged, {name, start_ps, duration_ps}); });
    std::sort(space->aggregated.begin(), space->aggregated.end());
  });
}

int32_t ox_find_stats(const ox_space* space, const int32_t* column, uint32_t columns, uint64_t begin, uint64_t end, int32_t threads,
                      ox_stats** stats) {
  return outpace::guarded([&] {
    const uint64_t lines = space->lines.size();
    auto q = std::make_unique<ox_stats>(ox_stats{space, {column, column + space->stat_names.size()}, columns, begin, end, {}});
    q->first.assign(columns * lines + 1, 0);
    outpace::parallel(lines, threads, [&](uint64_t i) { return space->lines[i].events; }, [&](uint64_t i) {
      std::vector<uint64_t> count(columns, 0);
      outpace::each_wanted(*q, space->lines[i], [&](int32_t, int32_t c, outpace::Reader) { ++count[c]; });
      for (uint32_t c = 0; c < columns; ++c) q->first[c * lines + i + 1] = count[c];
    });
    for (uint64_t i = 1; i < q->first.size(); ++i) q->first[i] += q->first[i - 1];
    *stats = q.release();
  });
}

int32_t ox_stats_bounds(const ox_stats* q, uint64_t* first) {
  return outpace::guarded([&] {
    for (uint32_t c = 0; c <= q->columns; ++c) first[c] = q->first[c * q->space->lines.size()];
  });
}

int32_t ox_stats_take(const ox_stats* q, int32_t threads, int32_t* row, uint8_t* kind, uint64_t* value, uint32_t* length) {
  return outpace::guarded([&] {
    const uint64_t lines = q->space->lines.size();
    outpace::parallel(lines, threads, [&](uint64_t i) { return q->space->lines[i].events; }, [&](uint64_t i) {
      const outpace::Line& line = q->space->lines[i];
      const outpace::IdMap& names = q->space->planes[line.plane].stat_names;
      std::vector<uint64_t> at(q->columns), end(q->columns);
      for (uint32_t c = 0; c < q->columns; ++c) {
        at[c] = q->first[c * lines + i];
        end[c] = q->first[c * lines + i + 1];
      }
      outpace::each_wanted(*q, line, [&](int32_t event, int32_t c, outpace::Reader message) {
        outpace::Stat stat = outpace::read_stat(message, *q->space);
        outpace::resolve(stat, names);
        if (at[c] == end[c]) outpace::refuse(OX_CHANGED);  // more than ox_find_stats has counted
        const uint64_t to = at[c]++;
        row[to] = event;
        kind[to] = stat.kind;
        value[to] = stat.value;
        length[to] = stat.length;
      });
      for (uint32_t c = 0; c < q->columns; ++c) {
        if (at[c] != end[c]) outpace::refuse(OX_CHANGED);
        if (!line.row_of.empty()) outpace::sort_entries({row, kind, value, length}, q->first[c * lines + i], at[c]);
      }
    });
  });
}

void ox_stats_close(ox_stats* stats) { delete stats; }

}  // extern "C"
