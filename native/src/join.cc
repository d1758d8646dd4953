// Equality join of two columns of 64-bit keys by hashing. Both sides are first sorted into parts by hash, so that the table of a part stays
// in the processor's cache, and threads take part by part.
#include <cstddef>
#include <memory>
#include <vector>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"

namespace {

constexpr uint64_t kPartSize = 4096;  // causes per part: its table takes 128 KiB at most

uint64_t hash(uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }

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
    uint64_t at = hash(key) >> 20 & mask_;
    while (table_[at].slot >= 0 && table_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  uint64_t mask_;
  int32_t count_ = 0;
  std::vector<Entry> table_;
};

// One side of the join. A key of two columns is mixed into one.
struct Side {
  uint64_t count;
  const int32_t* row;
  const uint64_t* first;
  const uint64_t* second;

  uint64_t key(uint64_t i) const {
    return second == nullptr ? first[i] : first[i] * 0x9E3779B97F4A7C15ull + second[i] * 0xC2B2AE3D27D4EB4Full;
  }
};

struct Keyed {
  uint64_t key;
  uint64_t at;
};

// The keys of one side, part by part, each in order of position.
struct Scattered {
  std::vector<uint64_t> first;
  std::vector<Keyed> keyed;

  void fill(const Side& side, uint64_t parts) {
    const auto part = [&](uint64_t key) { return (hash(key) >> 44) & (parts - 1); };
    first.assign(parts + 2, 0);
    for (uint64_t i = 0; i < side.count; ++i) ++first[part(side.key(i)) + 2];
    for (std::size_t p = 2; p < first.size(); ++p) first[p] += first[p - 1];
    keyed.resize(side.count);
    for (uint64_t i = 0; i < side.count; ++i) {
      const uint64_t key = side.key(i);
      keyed[first[part(key) + 1]++] = {key, i};
    }
  }

  const Keyed* begin(uint64_t part) const { return keyed.data() + first[part]; }
  const Keyed* end(uint64_t part) const { return keyed.data() + first[part + 1]; }
};

// The pairs of one part: its causes by slot, and its effects with their slot.
struct Part {
  std::vector<uint32_t> first;  // the causes of slot s stand at [first[s], first[s + 1]) of `cause`
  std::vector<int32_t> cause;
  std::vector<uint32_t> effect;
  std::vector<int32_t> slot;

  void fill(const Keyed* from, const Keyed* from_end, const Keyed* to, const Keyed* to_end, const int32_t* cause_row, uint32_t crowd,
            std::vector<uint64_t>& pairs) {
    const auto causes = static_cast<std::size_t>(from_end - from);
    Slots slots(causes);
    std::vector<int32_t> slot_of(causes);
    for (std::size_t i = 0; i < causes; ++i) slot_of[i] = slots.add(from[i].key);
    first.assign(static_cast<std::size_t>(slots.count()) + 2, 0);
    for (const int32_t s : slot_of) ++first[s + 2];
    for (std::size_t s = 2; s < first.size(); ++s) first[s] += first[s - 1];
    cause.resize(causes);
    for (std::size_t i = 0; i < causes; ++i) cause[first[slot_of[i] + 1]++] = cause_row[from[i].at];

    std::vector<uint32_t> consumers(slots.count(), 0);
    for (; to < to_end; ++to) {
      const int32_t s = slots.get(to->key);
      if (s < 0) continue;
      effect.push_back(static_cast<uint32_t>(to->at));
      slot.push_back(s);
      ++consumers[s];
    }
    for (std::size_t i = 0; i < effect.size(); ++i) {
      const uint32_t producers = first[slot[i] + 1] - first[slot[i]];
      const bool crowded = crowd > 0 && consumers[slot[i]] >= crowd && producers >= crowd;
      pairs[effect[i] + 1] = crowded ? 0 : producers;
    }
  }
};

}  // namespace

struct ox_pairs {
  std::vector<uint64_t> first;  // the pairs of effect i stand at [first[i], first[i + 1])
  std::vector<Part> parts;
  const int32_t* effect_row;
  int32_t threads;
};

extern "C" {

int32_t ox_join(uint64_t causes, const int32_t* cause, const uint64_t* cause_key, const uint64_t* cause_second, uint64_t effects,
                const int32_t* effect, const uint64_t* effect_key, const uint64_t* effect_second, uint32_t crowd, int32_t threads,
                ox_pairs** pairs, uint64_t* count) {
  return outpace::guarded([&] {
    const Side from{causes, cause, cause_key, cause_second}, to{effects, effect, effect_key, effect_second};
    uint64_t parts = 1;
    while (parts * kPartSize < causes) parts *= 2;
    const auto even = [](uint64_t) { return 1; };
    Scattered sides[2];
    outpace::parallel(2, threads, even, [&](uint64_t side) { sides[side].fill(side == 0 ? from : to, parts); });
    auto made = std::make_unique<ox_pairs>(ox_pairs{std::vector<uint64_t>(effects + 1, 0), std::vector<Part>(parts), effect, threads});
    outpace::parallel(parts, threads, even, [&](uint64_t p) {
      made->parts[p].fill(sides[0].begin(p), sides[0].end(p), sides[1].begin(p), sides[1].end(p), cause, crowd, made->first);
    });
    for (uint64_t i = 0; i < effects; ++i) made->first[i + 1] += made->first[i];
    *count = made->first[effects];
    *pairs = made.release();
  });
}

int32_t ox_pairs_take(const ox_pairs* pairs, int32_t* cause, int32_t* effect) {
  return outpace::guarded([&] {
    outpace::parallel(pairs->parts.size(), pairs->threads, [](uint64_t) { return 1; }, [&](uint64_t p) {
      const Part& part = pairs->parts[p];
      for (std::size_t i = 0; i < part.effect.size(); ++i) {
        const uint64_t at = pairs->first[part.effect[i]], end = pairs->first[part.effect[i] + 1];
        const uint32_t from = part.first[part.slot[i]];
        for (uint64_t k = at; k < end; ++k) {
          cause[k] = part.cause[from + (k - at)];
          effect[k] = pairs->effect_row[part.effect[i]];
        }
      }
    });
  });
}

void ox_pairs_close(ox_pairs* pairs) { delete pairs; }

}  // extern "C"
