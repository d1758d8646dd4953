// Moments that several events share: what of each is whose.
#include <algorithm>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "saturate.h"

namespace {

struct Point {
  int64_t at;
  uint64_t place;  // of an event that starts; its end comes `count` behind
};

struct Parts {
  double shared = 0, single = 0, left = 0;  // among those that compute; of one that does so alone; among those that wait while none computes

  void add(const Parts& other, double sign) {
    shared += sign * other.shared;
    single += sign * other.single;
    left += sign * other.left;
  }
};

}  // namespace

extern "C" {

int32_t ox_share(uint64_t count, const int64_t* start_ps, const int64_t* end_ps, const int32_t* parent, const uint8_t* waits, double* own,
                 double* alone, double* sums) {
  return outpace::guarded([&] {
    std::vector<Point> points(2 * count);
    for (uint64_t i = 0; i < count; ++i) {
      points[i] = {start_ps[i], i};
      points[count + i] = {end_ps[i], count + i};
    }
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.at != b.at ? a.at < b.at : a.place < b.place; });
    std::vector<Parts> inside(count), below(count);
    Parts now;
    int64_t working = 0, waiting = 0, last = count > 0 ? points.front().at : 0;
    sums[0] = sums[1] = sums[2] = 0;
    for (const Point& point : points) {
      const auto gap = static_cast<double>(outpace::subtract(point.at, last));
      now.shared += working > 0 ? gap / static_cast<double>(working) : 0;
      now.single += working == 1 ? gap : 0;
      now.left += working == 0 && waiting > 0 ? gap / static_cast<double>(waiting) : 0;
      sums[0] += working > 0 ? gap : 0;
      sums[1] += working == 1 ? gap : 0;
      sums[2] += gap * static_cast<double>(working);
      last = point.at;
      const uint64_t i = point.place % count;
      const int64_t step = point.place < count ? 1 : -1;
      inside[i].add(now, static_cast<double>(-step));
      (waits[i] != 0 ? waiting : working) += step;
      if (parent[i] >= 0) (waits[parent[i]] != 0 ? waiting : working) -= step;  // a nested event takes its time out
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (parent[i] >= 0) below[parent[i]].add(inside[i], 1);
    }
    for (uint64_t i = 0; i < count; ++i) {
      inside[i].add(below[i], -1);
      own[i] = std::max(waits[i] != 0 ? inside[i].left : inside[i].shared, 0.0);
      alone[i] = waits[i] != 0 ? 0 : std::max(inside[i].single, 0.0);
    }
  });
}

}  // extern "C"
