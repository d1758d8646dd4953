// Partners by key and time. Causes are put into parts by a hash of their keys, so that a part stays in the processor's cache, and sorted there
// by key and time: each effect then finds its one partner by bisection, however many events share its key.
#include <algorithm>
#include <tuple>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"

namespace {

constexpr uint64_t kPartSize = 1024;      // causes per part, about: 32 KiB
constexpr uint64_t kTaskSize = 64 << 10;  // effects that a thread takes at a time

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
    const auto even = [](uint64_t) { return 1; };
    uint64_t parts = 1;
    while (parts * kPartSize < causes && parts < 1 << 24) parts *= 2;
    std::vector<uint64_t> end(parts + 1, 0);  // after the loop that fills `sorted`: where each part ends
    for (uint64_t i = 0; i < causes; ++i) ++end[from.part(i, parts) + 1];
    for (uint64_t p = 0; p < parts; ++p) end[p + 1] += end[p];
    const std::vector<uint64_t> begin(end);
    std::vector<Event> sorted(causes);
    for (uint64_t i = 0; i < causes; ++i) sorted[end[from.part(i, parts)]++] = from.event(i);
    outpace::parallel(parts, threads, even, [&](uint64_t p) { std::sort(sorted.begin() + begin[p], sorted.begin() + end[p], before); });
    outpace::parallel((effects + kTaskSize - 1) / kTaskSize, threads, even, [&](uint64_t task) {
      for (uint64_t i = task * kTaskSize; i < std::min(effects, (task + 1) * kTaskSize); ++i) {
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
