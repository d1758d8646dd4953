// SPDX-License-Identifier: Apache-2.0
// The second pass: events to columns, and stats on demand.
#include <algorithm>
#include <numeric>
#include <utility>

#include "guard.h"
#include "parallel.h"
#include "space.h"

namespace outpace {
namespace {

[[gnu::cold, gnu::noinline]] uint64_t late_id(const Reader& stat, const Bytes& bytes) { return read_stat(stat, bytes).id; }

// Row of a stat's name, -1 for an unknown id. The id usually comes first: an unwanted stat costs two bytes.
inline int32_t name_of(const Reader& stat, const IdMap& stat_names, const Bytes& bytes) {
  Reader head = stat;
  const uint64_t id = head.varint() == tag(1, kVarint) ? head.varint() : late_id(stat, bytes);
  return stat_names.get(static_cast<int64_t>(id), -1);
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

[[gnu::cold, gnu::noinline]] bool lacks_name(const Reader& message, const IdMap& stat_names, const Bytes& bytes) {
  Stat stat = read_stat(message, bytes);
  resolve(stat, stat_names);
  return nameless(stat, stat_names);
}

// How many events of a line have a stat of some name, the last of them (its number from 1), and how many more such stats they have.
struct Tally {
  uint32_t events = 0, last = 0;
  uint64_t repeated = 0;
};

// `tally`: room for each stat name, all 0 before and after.
void decode_line(ox_space& space, Line& line, bool is_damaged, Columns all, std::vector<Tally>& tally) {
  const Columns c{all.name + line.first_event, all.start + line.first_event, all.duration + line.first_event};
  const Plane& plane = space.planes[line.plane];
  const auto unknown = static_cast<int32_t>(space.event_names.size());
  std::vector<std::pair<uint64_t, int64_t>> aggregated;
  uint64_t clamped = 0, nameless_stats = 0;
  line.stats.clear();
  each_event(space, line, [&](const Segment& segment, uint64_t i, Reader message, const Bytes& bytes) {
    const uint8_t* begin = message.at;
    const auto number = static_cast<uint32_t>(i + 1);
    const Event event = read_event(message, [&](const Reader& stat) {
      if (is_damaged) nameless_stats += lacks_name(stat, plane.stat_names, bytes);
      const int32_t name = name_of(stat, plane.stat_names, bytes);
      if (name < 0) return;
      Tally& of_name = tally[name];
      if (std::exchange(of_name.last, number) == number) ++of_name.repeated;
      else if (of_name.events++ == 0) line.stats.emplace_back(name, 0);
    });
    if (message.bad) {
      const auto lost = static_cast<uint64_t>(message.end - begin);
      space.damaged(bytes.offset(begin), lost, static_cast<int32_t>(line.plane), OX_DAMAGE_MALFORMED);
    }
    c.name[i] = plane.event_names.get(event.name_id, unknown);
    clamped += place(event, segment.timestamp_ns, space.origin_ns, &c.start[i], &c.duration[i]);
    if (event.occurrences != 0) aggregated.emplace_back(i, event.occurrences);
  });
  line.row_of.clear();
  if (!in_order(c.start, c.duration, line.events)) sort_line(line, c);
  for (auto& [row, count] : aggregated) row = line.first_event + (line.row_of.empty() ? row : line.row_of[row]);
  const std::lock_guard<std::mutex> hold(space.lock);
  for (auto& [name, events] : line.stats) {
    events = tally[name].events;
    space.repeated[name] += std::exchange(tally[name], {}).repeated;
  }
  space.clamped += clamped;
  space.nameless_stats += nameless_stats;
  space.aggregated.insert(space.aggregated.end(), aggregated.begin(), aggregated.end());
}

// Which column each stat name goes to, and where the values of each (column, line) begin: columns * lines + 1 entries.
struct Wanted {
  const int32_t* column;
  uint32_t columns;
  std::vector<uint64_t> first;

  Wanted(const ox_space& space, const int32_t* column, uint32_t columns)
      : column(column), columns(columns), first(columns * space.lines.size() + 1, 0) {
    for (uint64_t i = 0; i < space.lines.size(); ++i) {
      for (const auto& [name, count] : space.lines[i].stats) {
        if (column[name] >= 0) first[column[name] * space.lines.size() + i + 1] += count;
      }
    }
    for (uint64_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  }
};

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

// Decode the wanted stats of a line, if it has any.
void take_line(const ox_space& space, uint64_t number, const Wanted& wanted, StatColumns out, Firsts& firsts) {
  const Line& line = space.lines[number];
  const auto is_wanted = [&](const auto& stat) { return wanted.column[stat.first] >= 0; };
  if (std::none_of(line.stats.begin(), line.stats.end(), is_wanted)) return;
  const IdMap& names = space.planes[line.plane].stat_names;
  std::vector<uint64_t> at(wanted.columns), end(wanted.columns);
  for (uint32_t c = 0; c < wanted.columns; ++c) {
    at[c] = wanted.first[c * space.lines.size() + number];
    end[c] = wanted.first[c * space.lines.size() + number + 1];
  }
  const std::vector<uint64_t> begin(at);
  each_event(space, line, [&](const Segment&, uint64_t i, Reader event, const Bytes& bytes) {
    firsts.next();
    read_event(event, [&](const Reader& message) {
      const int32_t name = name_of(message, names, bytes);
      const int32_t c = name < 0 ? -1 : wanted.column[name];
      if (c < 0 || !firsts.add(name)) return;
      Stat stat = read_stat(message, bytes);
      resolve(stat, names);
      if (at[c] == end[c]) refuse(OX_CHANGED);  // more than ox_events has counted
      const uint64_t to = at[c]++;
      out.row[to] = static_cast<int32_t>(line.first_event + (line.row_of.empty() ? i : line.row_of[i]));
      out.kind[to] = stat.kind;
      out.value[to] = stat.value;
      out.length[to] = stat.length;
    });
  });
  if (at != end) refuse(OX_CHANGED);
  if (line.row_of.empty()) return;
  for (uint32_t c = 0; c < wanted.columns; ++c) sort_entries(out, begin[c], end[c]);
}

}  // namespace
}  // namespace outpace

extern "C" {

int32_t ox_events(ox_space* space, int32_t threads, int32_t* name, int64_t* start_ps, int64_t* duration_ps) {
  if (space->events > INT32_MAX) return OX_TOO_MANY;  // rows are int32: streaming is the way for such files
  return outpace::guarded([&] {
    space->aggregated.clear();
    space->clamped = space->nameless_stats = 0;
    space->repeated.assign(space->stat_names.size(), 0);
    const bool is_damaged = space->damages_total > 0;  // else nothing is lost, and to look at every stat would take time
    for (const outpace::OwnerStat& owner : space->owner_stats) {
      if (is_damaged) space->nameless_stats += outpace::nameless(owner.stat, space->planes[owner.plane].stat_names);
    }
    outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; },
                      [&, tally = std::vector<outpace::Tally>(space->stat_names.size())](uint64_t i) mutable {
                        outpace::decode_line(*space, space->lines[i], is_damaged, {name, start_ps, duration_ps}, tally);
                      });
    std::sort(space->aggregated.begin(), space->aggregated.end());
    space->in_order();
  });
}

int32_t ox_stat_bounds(const ox_space* space, const int32_t* column, uint32_t columns, uint64_t* first) {
  return outpace::guarded([&] {
    const outpace::Wanted wanted(*space, column, columns);
    for (uint32_t c = 0; c <= columns; ++c) first[c] = wanted.first[c * space->lines.size()];
  });
}

int32_t ox_stats(const ox_space* space, const int32_t* column, uint32_t columns, int32_t threads, int32_t* row, uint8_t* kind, uint64_t* value,
                 uint32_t* length) {
  return outpace::guarded([&] {
    const outpace::Wanted wanted(*space, column, columns);
    const outpace::StatColumns out{row, kind, value, length};
    outpace::parallel(space->lines.size(), threads, [&](uint64_t i) { return space->lines[i].events; },
                      [&, firsts = outpace::Firsts(space->stat_names.size())](uint64_t i) mutable {
                        outpace::take_line(*space, i, wanted, out, firsts);
                      });
  });
}

}  // extern "C"
