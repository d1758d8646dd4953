// SPDX-License-Identifier: Apache-2.0
// Nesting of events on a line, and spreading of group ids along cause and effect.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"

namespace {

struct Nesting {
  const int64_t* start;
  const int64_t* duration;
  const uint8_t* mask;
  int32_t* parent;
  int32_t* subtree_end;
  int64_t* self;
};

// `inside`: the end of what its children have taken so far.
struct Open {
  int32_t row;
  int64_t end, inside;
};

// One pass with a stack: an event's parent is the nearest open event that contains it. Events come in (start, longer first) order, so
// whatever does not contain the current event can contain no later one either, and a subtree is a contiguous range of rows. What children have in
// common (kernels of a graph that run at once, lines that a file mixes up) is taken from their parent once, so that no self time is below zero.
void nest_line(uint64_t begin, uint64_t end, const Nesting& n) {
  std::vector<Open> open;
  for (uint64_t i = begin; i < end; ++i) {
    const auto row = static_cast<int32_t>(i);
    const bool takes_part = n.mask == nullptr || n.mask[i] != 0;
    if (n.parent != nullptr) n.parent[i] = -1;
    if (n.self != nullptr) n.self[i] = takes_part ? n.duration[i] : 0;
    if (n.subtree_end != nullptr) n.subtree_end[i] = row + 1;
    if (!takes_part) continue;
    const int64_t finish = n.start[i] + n.duration[i];
    for (; !open.empty() && open.back().end < finish; open.pop_back()) {
      if (n.subtree_end != nullptr) n.subtree_end[open.back().row] = row;
    }
    if (!open.empty()) {
      if (n.parent != nullptr) n.parent[i] = open.back().row;
      const int64_t from = std::max(n.start[i], open.back().inside);
      if (n.self != nullptr && from < finish) n.self[open.back().row] -= finish - from;
      open.back().inside = std::max(open.back().inside, finish);
    }
    open.push_back({row, finish, n.start[i]});
  }
  if (n.subtree_end == nullptr) return;
  for (const Open& left : open) n.subtree_end[left.row] = static_cast<int32_t>(end);
}

struct Edge {
  int32_t cause, effect;
};

// Causes and effects by cause; where those of 256 causes begin is known, so that an edge takes eight bytes and an event hardly any.
class Edges {
 public:
  Edges(uint64_t events, uint64_t count, const int32_t* cause, const int32_t* effect) : first_(events / kCauses + 2, 0), edges_(count) {
    for (uint64_t i = 0; i < count; ++i) ++first_[block(cause[i]) + 1];
    for (uint64_t b = 1; b < first_.size(); ++b) first_[b] += first_[b - 1];
    std::vector<uint32_t> at(first_);
    for (uint64_t i = 0; i < count; ++i) edges_[at[block(cause[i])]++] = {cause[i], effect[i]};
    for (uint64_t b = 1; b < first_.size(); ++b) {
      const auto before = [](const Edge& one, const Edge& other) { return one.cause < other.cause; };
      std::stable_sort(edges_.data() + first_[b - 1], edges_.data() + first_[b], before);  // where subtrees cross, order decides
    }
  }

  // The first whose cause is this row or a later one.
  const Edge* from(int32_t row) const {
    const Edge* last = edges_.data() + first_[block(row) + 1];
    return std::lower_bound(edges_.data() + first_[block(row)], last, row, [](const Edge& edge, int32_t wanted) { return edge.cause < wanted; });
  }
  const Edge* end() const { return edges_.data() + edges_.size(); }

 private:
  static constexpr uint64_t kCauses = 256;
  static uint64_t block(int32_t row) { return static_cast<uint64_t>(row) / kCauses; }

  std::vector<uint32_t> first_;
  std::vector<Edge> edges_;
};

}  // namespace

extern "C" {

int32_t ox_nest(uint64_t lines, const uint64_t* first_event, const int64_t* start_ps, const int64_t* duration_ps, const uint8_t* mask,
             int32_t threads, int32_t* parent, int32_t* subtree_end, int64_t* self_ps) {
  return outpace::guarded([&] {
    const Nesting nesting{start_ps, duration_ps, mask, parent, subtree_end, self_ps};
    outpace::parallel(lines, threads, [&](uint64_t i) { return first_event[i + 1] - first_event[i]; },
                      [&](uint64_t i) { nest_line(first_event[i], first_event[i + 1], nesting); });
  });
}

int32_t ox_spread(uint64_t events, const int32_t* subtree_end, uint64_t edges, const int32_t* cause, const int32_t* effect, uint64_t roots,
               const int32_t* root_row, const int32_t* root_group, int32_t* group) {
  return outpace::guarded([&] {
    const Edges all(events, edges, cause, effect);
    std::vector<int32_t> todo;
    for (uint64_t r = 0; r < roots; ++r) {
      const int32_t id = root_group[r];
      todo.assign(1, root_row[r]);
      while (!todo.empty()) {
        const int32_t top = todo.back();
        todo.pop_back();
        if (top < 0 || static_cast<uint64_t>(top) >= events) continue;
        const Edge* edge = all.from(top);
        for (int32_t row = top; row < subtree_end[top];) {
          if (group[row] >= 0) {  // another root (or an earlier visit) owns this subtree
            row = std::max(subtree_end[row], row + 1);
            edge = all.from(row);
            continue;
          }
          group[row] = id;
          for (; edge != all.end() && edge->cause == row; ++edge) todo.push_back(edge->effect);
          ++row;
        }
      }
    }
  });
}

}  // extern "C"
