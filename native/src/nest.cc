// Nesting of events on a line, and spreading of group ids along cause and effect.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"
#include "saturate.h"

namespace {

struct Nesting {
  const int64_t* start;
  const int64_t* duration;
  const uint8_t* mask;
  const int64_t* row;  // of the event at each place; NULL: the place itself
  int32_t* parent;
  int32_t* subtree_end;
  int64_t* self;
};

struct Open {
  int32_t place, row;
  int64_t end;
};

// One pass with a stack: an event's parent is the nearest open event that contains it. Events come in (start, longer first) order, so
// whatever does not contain the current event can contain no later one either, and a subtree is a contiguous range of places.
void nest_line(uint64_t begin, uint64_t end, const Nesting& n) {
  std::vector<Open> open;
  for (uint64_t i = begin; i < end; ++i) {
    const auto place = static_cast<int32_t>(i);
    const int32_t row = n.row == nullptr ? place : static_cast<int32_t>(n.row[i]);
    const bool takes_part = n.mask == nullptr || n.mask[row] != 0;
    if (n.parent != nullptr) n.parent[i] = -1;
    if (n.self != nullptr) n.self[i] = takes_part ? n.duration[row] : 0;
    if (n.subtree_end != nullptr) n.subtree_end[i] = place + 1;
    if (!takes_part) continue;
    const int64_t finish = n.start[row] + n.duration[row];
    for (; !open.empty() && open.back().end < finish; open.pop_back()) {
      if (n.subtree_end != nullptr) n.subtree_end[open.back().place] = place;
    }
    if (!open.empty()) {
      if (n.parent != nullptr) n.parent[i] = open.back().row;
      if (n.self != nullptr) n.self[open.back().place] = outpace::subtract(n.self[open.back().place], n.duration[row]);
    }
    open.push_back({place, row, finish});
  }
  if (n.subtree_end == nullptr) return;
  for (const Open& left : open) n.subtree_end[left.place] = static_cast<int32_t>(end);
}

}  // namespace

extern "C" {

int32_t ox_nest(uint64_t lines, const uint64_t* first_event, const int64_t* start_ps, const int64_t* duration_ps, const uint8_t* mask,
             uint64_t count, const int64_t* row, int32_t threads, int32_t* parent, int32_t* subtree_end, int64_t* self_ps) {
  return outpace::guarded([&] {
    const Nesting nesting{start_ps, duration_ps, mask, row, parent, subtree_end, self_ps};
    const auto place = [&](uint64_t first) -> uint64_t {
      return row == nullptr ? first : static_cast<uint64_t>(std::lower_bound(row, row + count, static_cast<int64_t>(first)) - row);
    };
    outpace::parallel(lines, threads, [&](uint64_t i) { return first_event[i + 1] - first_event[i]; },
                      [&](uint64_t i) { nest_line(place(first_event[i]), place(first_event[i + 1]), nesting); });
  });
}

int32_t ox_spread(uint64_t events, const int32_t* subtree_end, uint64_t edges, const int32_t* cause, const int32_t* effect, uint64_t roots,
               const int32_t* root_row, const int32_t* root_group, int32_t* group) {
  return outpace::guarded([&] {
    // Effects of row r stand at effects[first[r]] to effects[first[r + 1]] (a counting sort by cause).
    std::vector<uint32_t> first(events + 2, 0);
    for (uint64_t e = 0; e < edges; ++e) ++first[cause[e] + 2];
    for (uint64_t r = 2; r < first.size(); ++r) first[r] += first[r - 1];
    std::vector<int32_t> effects(edges);
    for (uint64_t e = 0; e < edges; ++e) effects[first[cause[e] + 1]++] = effect[e];

    std::vector<int32_t> todo;
    for (uint64_t r = 0; r < roots; ++r) {
      const int32_t id = root_group[r];
      todo.assign(1, root_row[r]);
      while (!todo.empty()) {
        const int32_t top = todo.back();
        todo.pop_back();
        if (top < 0 || static_cast<uint64_t>(top) >= events) continue;
        for (int32_t row = top; row < subtree_end[top];) {
          if (group[row] >= 0) {  // another root (or an earlier visit) owns this subtree
            row = std::max(subtree_end[row], row + 1);
            continue;
          }
          group[row] = id;
          for (uint32_t e = first[row]; e < first[row + 1]; ++e) todo.push_back(effects[e]);
          ++row;
        }
      }
    }
  });
}

}  // extern "C"
