// Mutates profiles and runs the whole core over each: index, events, stats, nesting. Built with sanitizers, any fault ends it.
//
//   fuzz MUTATIONS FILE...
#include <fcntl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "outpace.h"

namespace {

using Bytes = std::vector<uint8_t>;

uint64_t next(uint64_t& state) {  // xorshift64: the same mutations in every run
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Every text that a table names lies within the data.
void require_inside(const std::vector<uint64_t>& at, const std::vector<uint32_t>& length, const Bytes& data) {
  for (size_t i = 0; i < at.size(); ++i) {
    if (length[i] > 0 && (at[i] > data.size() || length[i] > data.size() - at[i])) std::abort();
  }
}

// The tables that stand beside the events.
void exercise_tables(const ox_space* space, const ox_sizes& sizes, const Bytes& data) {
  const auto table = [&](uint64_t rows, auto copy) {
    std::vector<uint32_t> plane(rows), length(rows), display_length(rows);
    std::vector<int64_t> id(rows);
    std::vector<uint64_t> at(rows), display_at(rows);
    std::vector<int32_t> owner(rows), stat_name(rows);
    std::vector<uint8_t> kind(rows);
    copy(plane, id, at, length, display_at, display_length, owner, stat_name, kind);
    require_inside(at, length, data);
    require_inside(display_at, display_length, data);
    for (const uint32_t index : plane) {
      if (index > 0 && index >= sizes.planes) std::abort();  // tables without a plane column stay at 0
    }
  };
  table(sizes.planes, [&](auto&, auto& id, auto& at, auto& length, auto&, auto&, auto&, auto&, auto&) {
    std::vector<uint32_t> first(sizes.planes);
    ox_planes(space, id.data(), at.data(), length.data(), first.data());
  });
  table(sizes.event_names, [&](auto& plane, auto& id, auto& at, auto& length, auto& shown_at, auto& shown, auto&, auto&, auto&) {
    ox_event_names(space, plane.data(), id.data(), at.data(), length.data(), shown_at.data(), shown.data());
  });
  table(sizes.stat_names, [&](auto& plane, auto& id, auto& at, auto& length, auto&, auto&, auto&, auto&, auto&) {
    ox_stat_names(space, plane.data(), id.data(), at.data(), length.data());
  });
  table(sizes.owner_stats, [&](auto& plane, auto&, auto& at, auto& length, auto&, auto&, auto& owner, auto& stat_name, auto& kind) {
    ox_owner_stats(space, plane.data(), owner.data(), stat_name.data(), kind.data(), at.data(), length.data());
  });
  table(sizes.strings, [&](auto&, auto&, auto& at, auto& length, auto&, auto&, auto&, auto&, auto& field) {
    ox_strings(space, field.data(), at.data(), length.data());
  });
  std::vector<uint64_t> at(sizes.damages), lost(sizes.damages);
  std::vector<int32_t> plane(sizes.damages);
  std::vector<uint8_t> why(sizes.damages);
  ox_damages(space, at.data(), lost.data(), plane.data(), why.data());
}

// Write the events as a trace file, in both formats, with all arguments, and arrows between whatever events there are.
void exercise_writer(const ox_space* space, const ox_sizes& sizes, const int32_t* name, const int64_t* start, const int64_t* duration) {
  static const int nowhere = open("/dev/null", O_WRONLY);
  const std::vector<uint8_t> wanted(sizes.stat_names + 1, 1);
  const std::vector<int32_t> flow_row{0, 0, 1};
  const std::vector<uint64_t> flow_id{1, 2, 1};
  const std::vector<uint8_t> flow_ends{0, 0, 1};
  for (const int32_t format : {OX_FORMAT_PERFETTO, OX_FORMAT_JSON}) {
    ox_export* out = nullptr;
    ox_export_open(nowhere, format, &out);
    ox_export_track(out, 1, 0, OX_TRACK_SECTION, 0, "section", 7, nullptr, 0);
    uint64_t written = 0;
    for (uint64_t i = 0; i < sizes.lines; ++i) {
      ox_export_track(out, i + 2, 1, OX_TRACK_SLICES, 0, "\xff\"", 2, "line", 4);
      const ox_line_slices line{space, name, start, duration, nullptr, wanted.data(), 1000, i, i + 2, 3, flow_row.data(), flow_id.data(), flow_ends.data()};
      uint64_t slices = 0;
      ox_export_line(out, &line, &slices);
      written += slices;
    }
    int32_t error = 0;
    ox_export_finish(out, &error);
    ox_export_close(out);
    if (written != sizes.events || error != 0) std::abort();
  }
}

// Run everything that takes untrusted bytes; returns the number of events.
uint64_t exercise(const Bytes& data) {
  ox_space* space = nullptr;
  ox_open(data.data(), data.size(), 2, &space);
  ox_sizes sizes;
  ox_get_sizes(space, &sizes);
  const uint64_t n = sizes.events;
  std::vector<int32_t> name(n), parent(n), subtree_end(n), group(n, -1);
  std::vector<int64_t> start(n), duration(n), self(n);
  std::vector<uint64_t> first(sizes.lines + 1), at(sizes.lines);
  std::vector<uint32_t> plane(sizes.lines), length(sizes.lines);
  std::vector<int64_t> id(sizes.lines), stamp(sizes.lines);
  if (ox_events(space, 2, name.data(), start.data(), duration.data()) == 0) {
    ox_get_sizes(space, &sizes);
    exercise_tables(space, sizes, data);
    std::vector<int64_t> occurrences(sizes.aggregated);
    std::vector<uint64_t> aggregated(sizes.aggregated);
    ox_aggregated(space, aggregated.data(), occurrences.data());
    ox_lines(space, plane.data(), id.data(), stamp.data(), at.data(), length.data(), first.data());
    require_inside(at, length, data);
    ox_nest(sizes.lines, first.data(), start.data(), duration.data(), nullptr, 2, parent.data(), subtree_end.data(), self.data());
    std::vector<int32_t> column(sizes.stat_names + 1, 0);
    ox_stats* stats = nullptr;
    ox_find_stats(space, column.data(), 1, 0, n, 2, &stats);
    std::vector<uint64_t> bounds(2);
    ox_stats_bounds(stats, bounds.data());
    const uint64_t m = bounds[1];
    std::vector<int32_t> row(m);
    std::vector<uint8_t> kind(m);
    std::vector<uint64_t> value(m);
    std::vector<uint32_t> size(m);
    ox_stats_take(stats, 2, row.data(), kind.data(), value.data(), size.data());
    for (uint64_t i = 0; i < m; ++i) {
      const bool text = kind[i] == OX_STAT_TEXT || kind[i] == OX_STAT_BYTES;
      if (text && (value[i] > data.size() || size[i] > data.size() - value[i])) std::abort();
      if (row[i] < 0 || static_cast<uint64_t>(row[i]) >= n) std::abort();
    }
    ox_stats_close(stats);
    exercise_writer(space, sizes, name.data(), start.data(), duration.data());
    const int32_t root = 0;
    if (n > 0) ox_spread(n, subtree_end.data(), 0, nullptr, nullptr, 1, &root, &root, group.data());
  }
  ox_close(space);
  return n;
}

}  // namespace

int main(int count, char** arguments) {
  const long mutations = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 100;
  uint64_t state = 0x9E3779B97F4A7C15ull, events = 0, runs = 0;
  for (int f = 2; f < count; ++f) {
    std::ifstream file(arguments[f], std::ios::binary);
    const Bytes whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    events += exercise(whole);
    for (long i = 0; i < mutations; ++i) {
      Bytes data = whole;
      if (data.empty()) break;
      if (next(state) % 3 == 0) data.resize(next(state) % data.size());
      for (uint64_t k = next(state) % 8; k > 0 && !data.empty(); --k) data[next(state) % data.size()] = static_cast<uint8_t>(next(state));
      data.shrink_to_fit();
      events += exercise(data);
      ++runs;
    }
  }
  std::printf("%llu mutated files, %llu events decoded, no fault\n", static_cast<unsigned long long>(runs), static_cast<unsigned long long>(events));
  return 0;
}
