// SPDX-License-Identifier: Apache-2.0
// Which lane of its track a slice is drawn on: within a lane slices nest or follow each other.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace outpace {

class Lanes {
 public:
  // The lane of the next slice: where the latest slice that contains it is, else the first free one. Slices come sorted by (start, longer first).
  uint32_t place(int64_t start, int64_t end) {
    const size_t tried = lanes_.size() < kTried ? lanes_.size() : kTried;
    size_t best = tried;
    for (size_t i = 0; i < tried; ++i) {
      if (!fits(lanes_[i], start, end)) continue;
      if (lanes_[i].empty() ? best == tried : best == tried || lanes_[best].empty() || lanes_[i].back().start > lanes_[best].back().start) best = i;
    }
    if (best < tried) return start == end ? static_cast<uint32_t>(best) : add(best, start, end);  // nothing nests in no time
    if (lanes_.size() >= kTried && !idle_.empty() && idle_.top().first <= start) {  // a crowd: take whatever lane has run empty
      const size_t lane = idle_.top().second;
      idle_.pop();
      lanes_[lane].clear();
      return add_crowded(lane, start, end);
    }
    lanes_.emplace_back();
    return lanes_.size() > kTried ? add_crowded(lanes_.size() - 1, start, end) : add(lanes_.size() - 1, start, end);
  }
  size_t count() const { return lanes_.size(); }

 private:
  static constexpr size_t kTried = 64;    // lanes looked at one by one: the work per slice stays bounded
  static constexpr size_t kDeepest = 250;  // Perfetto drops what nests deeper than 512 (255 in older versions)
  struct Open {
    int64_t start, end;
  };
  using Lane = std::vector<Open>;

  static bool fits(Lane& lane, int64_t start, int64_t end) {
    while (!lane.empty() && lane.back().end < end && lane.back().end <= start) lane.pop_back();
    return (lane.empty() || lane.back().end >= end) && lane.size() < kDeepest;
  }
  uint32_t add(size_t lane, int64_t start, int64_t end) {
    lanes_[lane].push_back({start, end});
    return static_cast<uint32_t>(lane);
  }
  uint32_t add_crowded(size_t lane, int64_t start, int64_t end) {
    idle_.emplace(end, lane);
    return add(lane, start, end);
  }

  std::vector<Lane> lanes_;
  using Idle = std::pair<int64_t, size_t>;
  std::priority_queue<Idle, std::vector<Idle>, std::greater<Idle>> idle_;  // lanes beyond kTried, by when they are free
};

}  // namespace outpace
