// SPDX-License-Identifier: Apache-2.0
// Partners by key and time. Causes are put into small parts by a hash of their keys, and sorted there by key and time: each effect then finds its
// one partner by bisection. Where many events share a key, or a hash, a part is large, and that is all: it is sorted and bisected like the others.
#include <algorithm>
#include <tuple>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"

namespace {

constexpr uint64_t kPartSize = 4;         // causes per part, about
#ifndef OX_TASK_SIZE
#define OX_TASK_SIZE (64 << 10)  // the tests of the core make it as small as it can be
#endif
constexpr uint64_t kTaskSize = OX_TASK_SIZE;  // causes or effects that a thread takes at a time

struct Event {
  uint64_t first, second;
  int64_t time;
  int32_t at;

  bool same(const Event& other) const { return first == other.first && second == other.second; }
};

bool before(const Event& a, const Event& b) { return std::tie(a.first, a.second, a.time, a.at) < std::tie(b.first, b.second, b.time, b.at); }

// One side: keys of one column or two, and the time of each event.
struct Side {
  const uint64_t* first;
  const uint64_t* second;
  const int64_t* time;

  Event event(uint64_t i) const { return {first[i], second == nullptr ? 0 : second[i], time[i], static_cast<int32_t>(i)}; }
  uint64_t part(uint64_t i, uint64_t parts) const {
    const uint64_t mixed = (first[i] ^ (second == nullptr ? 0 : second[i] * 0xC2B2AE3D27D4EB4Full)) * 0x9E3779B97F4A7C15ull;
    return (mixed ^ mixed >> 29) * 0x94D049BB133111EBull >> 40 & (parts - 1);
  }
};

}  // namespace

extern "C" {

int32_t ox_latest(uint64_t causes, const uint64_t* cause_key, const uint64_t* cause_second, const int64_t* cause_time, uint64_t effects,
                  const uint64_t* effect_key, const uint64_t* effect_second, const int64_t* effect_time, int32_t threads, int32_t* partner) {
  return outpace::guarded([&] {
    const Side from{cause_key, cause_second, cause_time}, to{effect_key, effect_second, effect_time};
    const auto in_tasks = [&](uint64_t count, auto work) {  // work(from, to)
      outpace::parallel((count + kTaskSize - 1) / kTaskSize, threads, [](uint64_t) { return 1; },
                        [&](uint64_t task) { work(task * kTaskSize, std::min(count, (task + 1) * kTaskSize)); });
    };
    uint64_t parts = 1;
    while (parts * kPartSize < causes && parts < 1 << 24) parts *= 2;
    std::vector<uint64_t> end(parts + 1, 0);  // after the loop that fills `sorted`: where each part ends
    for (uint64_t i = 0; i < causes; ++i) ++end[from.part(i, parts) + 1];
    for (uint64_t p = 0; p < parts; ++p) end[p + 1] += end[p];
    const std::vector<uint64_t> begin(end);
    std::vector<Event> sorted(causes);
    for (uint64_t i = 0; i < causes; ++i) sorted[end[from.part(i, parts)]++] = from.event(i);
    in_tasks(parts, [&](uint64_t p, uint64_t last) {
      for (; p < last; ++p) std::sort(sorted.begin() + begin[p], sorted.begin() + end[p], before);
    });
    in_tasks(effects, [&](uint64_t i, uint64_t last) {
      for (; i < last; ++i) {
        const uint64_t p = to.part(i, parts);
        Event effect = to.event(i);
        effect.at = INT32_MAX;
        const auto low = sorted.begin() + begin[p], high = sorted.begin() + end[p];
        const auto after = std::upper_bound(low, high, effect, before);
        if (after != low && after[-1].same(effect)) {
          partner[i] = after[-1].at;
        } else {
          partner[i] = after != high && after->same(effect) ? after->at : -1;
        }
      }
    });
  });
}

}  // extern "C"
