// SPDX-License-Identifier: Apache-2.0
// Moments that several events share: what of each is whose.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "saturate.h"

namespace {

struct Point {
  int64_t at;
  uint32_t place;
};

struct Parts {
  double shared = 0, single = 0, left = 0;  // among those that compute; of one that does so alone; among those that wait while none computes

  void add(const Parts& other, double sign) {
    shared += sign * other.shared;
    single += sign * other.single;
    left += sign * other.left;
  }
};

// Let `points` be the events in order of their `time`, equal ones as they stand.
void sort_by(const int64_t* time, std::vector<Point>& points) {
  for (uint32_t i = 0; i < points.size(); ++i) points[i] = {time[i], i};
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.at != b.at ? a.at < b.at : a.place < b.place; });
}

}  // namespace

extern "C" {

int32_t ox_share(uint64_t count, const int64_t* start_ps, const int64_t* end_ps, const int32_t* parent, const uint8_t* waits, double* own,
                 double* alone, double* sums) {
  return outpace::guarded([&] {
    std::vector<Point> ends(count);
    sort_by(start_ps, ends);
    std::vector<uint32_t> starts(count);
    for (uint64_t i = 0; i < count; ++i) starts[i] = ends[i].place;
    sort_by(end_ps, ends);
    std::vector<Parts> inside(count);
    Parts now;
    int64_t working = 0, waiting = 0, last = count > 0 ? start_ps[starts.front()] : 0;
    sums[0] = sums[1] = sums[2] = 0;
    const auto pass = [&](int64_t at, uint64_t i, int64_t step) {
      const auto gap = static_cast<double>(outpace::subtract(at, last));
      now.shared += working > 0 ? gap / static_cast<double>(working) : 0;
      now.single += working == 1 ? gap : 0;
      now.left += working == 0 && waiting > 0 ? gap / static_cast<double>(waiting) : 0;
      sums[0] += working > 0 ? gap : 0;
      sums[1] += working == 1 ? gap : 0;
      sums[2] += gap * static_cast<double>(working);
      last = at;
      inside[i].add(now, static_cast<double>(-step));
      (waits[i] != 0 ? waiting : working) += step;
      if (parent[i] >= 0) (waits[parent[i]] != 0 ? waiting : working) -= step;  // a nested event takes its time out
    };
    uint64_t begun = 0;
    for (const Point& end : ends) {
      for (; begun < count && start_ps[starts[begun]] <= end.at; ++begun) pass(start_ps[starts[begun]], starts[begun], 1);
      pass(end.at, end.place, -1);
    }
    std::fill(own, own + count, 0.0);  // first what the events inside each have of it
    std::fill(alone, alone + count, 0.0);
    for (uint64_t i = 0; i < count; ++i) {
      if (parent[i] < 0) continue;
      own[parent[i]] += waits[parent[i]] != 0 ? inside[i].left : inside[i].shared;
      alone[parent[i]] += inside[i].single;
    }
    for (uint64_t i = 0; i < count; ++i) {
      own[i] = std::max((waits[i] != 0 ? inside[i].left : inside[i].shared) - own[i], 0.0);
      alone[i] = waits[i] != 0 ? 0 : std::max(inside[i].single - alone[i], 0.0);
    }
  });
}

}  // extern "C"
