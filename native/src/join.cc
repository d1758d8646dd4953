// Equality join of two columns of 64-bit keys by hashing.
#include <cstddef>
#include <vector>

#include "outpace.h"

namespace {

// Open addressing from key to a dense slot; the table is at most half full, and key and slot share a cache line.
class Slots {
 public:
  explicit Slots(uint64_t keys) {
    uint64_t size = 16;
    while (size < keys * 2) size *= 2;
    mask_ = size - 1;
    table_.assign(size, {0, -1});
  }

  int32_t add(uint64_t key) {
    Entry& entry = table_[find(key)];
    if (entry.slot < 0) entry = {key, count_++};
    return entry.slot;
  }

  int32_t get(uint64_t key) const { return table_[find(key)].slot; }
  int32_t count() const { return count_; }

 private:
  struct Entry {
    uint64_t key;
    int32_t slot;
  };

  uint64_t find(uint64_t key) const {
    uint64_t at = (key * 0x9E3779B97F4A7C15ull) >> 20 & mask_;
    while (table_[at].slot >= 0 && table_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  uint64_t mask_;
  int32_t count_ = 0;
  std::vector<Entry> table_;
};

}  // namespace

struct ox_pairs {
  std::vector<int32_t> cause, effect;
};

extern "C" {

ox_pairs* ox_join(uint64_t causes, const int32_t* cause, const uint64_t* cause_key, uint64_t effects, const int32_t* effect,
                  const uint64_t* effect_key, uint32_t crowd, uint64_t* count) {
  Slots slots(causes);
  std::vector<int32_t> slot_of(causes), effect_slot(effects);
  for (uint64_t i = 0; i < causes; ++i) slot_of[i] = slots.add(cause_key[i]);
  std::vector<uint32_t> first(static_cast<std::size_t>(slots.count()) + 2, 0), consumers(slots.count(), 0);
  for (const int32_t slot : slot_of) ++first[slot + 2];
  for (std::size_t s = 2; s < first.size(); ++s) first[s] += first[s - 1];
  std::vector<int32_t> by_slot(causes);
  for (uint64_t i = 0; i < causes; ++i) by_slot[first[slot_of[i] + 1]++] = cause[i];
  for (uint64_t i = 0; i < effects; ++i) {
    effect_slot[i] = slots.get(effect_key[i]);
    if (effect_slot[i] >= 0) ++consumers[effect_slot[i]];
  }
  auto* pairs = new ox_pairs;
  pairs->cause.reserve(effects);  // most effects have one cause
  pairs->effect.reserve(effects);
  for (uint64_t i = 0; i < effects; ++i) {
    const int32_t slot = effect_slot[i];
    if (slot < 0) continue;
    if (crowd > 0 && consumers[slot] >= crowd && first[slot + 1] - first[slot] >= crowd) continue;
    for (uint32_t c = first[slot]; c < first[slot + 1]; ++c) {
      pairs->cause.push_back(by_slot[c]);
      pairs->effect.push_back(effect[i]);
    }
  }
  *count = pairs->cause.size();
  return pairs;
}

void ox_pairs_take(ox_pairs* pairs, int32_t* cause, int32_t* effect) {
  for (std::size_t i = 0; i < pairs->cause.size(); ++i) {
    cause[i] = pairs->cause[i];
    effect[i] = pairs->effect[i];
  }
  delete pairs;
}

}  // extern "C"
