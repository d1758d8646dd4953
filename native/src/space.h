// SPDX-License-Identifier: Apache-2.0
// An indexed XSpace: where its planes, lines and names stand in the buffer.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bytes.h"
#include "event.h"
#include "guard.h"
#include "hash.h"
#include "outpace.h"
#include "wire.h"

namespace outpace {

struct Stat {
  uint64_t id = 0;
  uint64_t value = 0;
  uint32_t length = 0;
  uint8_t kind = OX_STAT_NONE;
};

struct OwnerStat {
  uint32_t plane;
  int32_t event_name;  // -1: a stat of the plane itself
  Stat stat;
};

struct Name {
  uint32_t plane;
  int64_t id = 0;
  Text name, display;
};

// Maps the ids of one plane to dense rows: a vector while ids are small (the usual case), a hash map for the others.
class IdMap {
 public:
  void set(int64_t id, int32_t row);
  // Let `row[r]` stand for each row r.
  void replace(const int32_t* row);
  int32_t get(int64_t id, int32_t missing) const {
    const auto key = static_cast<uint64_t>(id);
    if (key < dense_.size() && dense_[key] >= 0) return dense_[key];
    if (sparse_.empty()) return missing;
    const auto found = sparse_.find(key);
    return found == sparse_.end() ? missing : found->second;
  }

 private:
  // A key goes to the vector only while that stays in proportion to the entries: memory must not follow what a hostile file claims.
  static constexpr uint64_t kSlack = 64, kPerEntry = 16;
  uint64_t entries_ = 0;
  std::vector<int32_t> dense_;
  std::unordered_map<uint64_t, int32_t, Scrambled> sparse_;
};

struct Plane {
  int64_t id = 0;
  Text name;
  uint32_t first_line = 0;
  IdMap event_names, stat_names;
};

// Where some events of a segment begin in the file, and the first start and the last end of them, ps from the segment's time.
struct Stretch {
  uint64_t at;
  int64_t first, last;
};

// One XLine message; several with the same id make up one line of the trace.
struct Segment {
  uint64_t begin = 0, end = 0;  // in the file
  int64_t id = 0;
  int64_t timestamp_ns = 0;
  Text name;
  uint64_t events = 0;  // those that count (see Window)
  std::vector<Stretch> stretches;  // where windows are asked for: of all of its events

  // Take the event at hand into account, the `number`th.
  void note(Fields& fields, uint64_t number);
};

// Of the stats of one event, or of one name, which are the first of their name: the others do not count. For one thread at a time.
class Firsts {
 public:
  explicit Firsts(size_t names) : last_(names, 0) {}
  // Begin with another owner of stats.
  void next() { ++owner_; }
  bool add(int32_t name) { return std::exchange(last_[static_cast<size_t>(name)], owner_) != owner_; }

 private:
  std::vector<uint32_t> last_;  // owner that had it; rows of events are int32
  uint32_t owner_ = 0;
};

struct Line {
  uint32_t plane;
  std::vector<Segment> segments;
  uint64_t first_event = 0;
  uint64_t events = 0;
  std::vector<uint32_t> row_of;  // file order -> row within the line; empty when the file is in order already
  std::vector<std::pair<int32_t, uint64_t>> stats;  // of each name (a row) that its events have stats of: how many events
};

// Texts of a profile by where they stand, each read once. For one thread at a time.
class Texts {
 public:
  std::string_view of(const ox_source& source, const Text& text) {
    if (source.memory != nullptr) return {reinterpret_cast<const char*>(source.memory) + text.at, text.length};
    if (text.length == 0) return {};
    const auto [found, is_new] = known_.try_emplace(text.at);
    if (is_new) {
      Bytes bytes(source);
      const Reader shown = bytes.show(text.at, text.length);
      found->second.assign(reinterpret_cast<const char*>(shown.at), shown.left());
    }
    return found->second;
  }

 private:
  std::unordered_map<uint64_t, std::string, Scrambled> known_;
};

struct Damage {
  uint64_t at, lost;
  int32_t plane;
  uint8_t why;
};

}  // namespace outpace

struct ox_space {
  ox_source source{};
  std::vector<outpace::Plane> planes;
  std::vector<outpace::Line> lines;
  std::vector<outpace::Name> event_names, stat_names;
  std::vector<outpace::OwnerStat> owner_stats;
  std::vector<std::pair<uint8_t, outpace::Text>> strings;
  std::vector<outpace::Damage> damages;
  uint64_t damages_total = 0;
  std::vector<std::pair<uint64_t, int64_t>> aggregated;
  std::vector<uint64_t> repeated;  // of each stat name: how many stats do not count, because their event has an earlier one of the name
  uint64_t clamped = 0, nameless_stats = 0;
  uint64_t events = 0;
  uint64_t budget = UINT64_MAX;  // bytes of memory that the rest of the file may still ask for
  int64_t origin_ns = 0;
  outpace::Window window;
  std::mutex lock;  // guards damages, aggregated, repeated, clamped and nameless_stats while lines are decoded in parallel

  // Take what `count` entries of the file cost from the budget.
  void spend(uint64_t cost, uint64_t count = 1) {
    if (count > budget / cost) outpace::refuse(OX_TOO_LARGE);
    budget -= count * cost;
  }
  // Note that `lost` bytes from `at` on could not be read.
  void damaged(uint64_t at, uint64_t lost, int32_t plane, uint8_t why);
  // Bring the damages, which threads found, into the order of the file.
  void in_order();
};

namespace outpace {

constexpr uint64_t kMaxDamages = 256;

// What an entry costs until all tools have run, in bytes: in the core, as columns, and as Python's objects (measured).
constexpr uint64_t kPlaneCost = 900, kLineCost = 400, kEventCost = 165, kEventNameCost = 2000, kStatNameCost = 300, kTextCost = 300;

// Read one XStat; text and bytes stay where they are. (A call would cost the passes over all stats a quarter of their time.)
[[gnu::always_inline]] inline Stat read_stat(Reader message, const Bytes& bytes) {
  Stat stat;
  while (message.more()) {
    const uint64_t field = message.varint();
    switch (field) {
      case tag(1, kVarint): stat.id = message.varint(); break;
      case tag(2, kFixed64):
        stat.value = message.fixed64();
        stat.kind = OX_STAT_DOUBLE;
        break;
      case tag(3, kVarint):
      case tag(4, kVarint):
      case tag(7, kVarint):
        stat.value = message.varint();
        stat.kind = static_cast<uint8_t>(field >> 3);
        break;
      case tag(5, kBytes):
      case tag(6, kBytes): {
        const Text text = bytes.text(message.message());
        stat.value = text.at;
        stat.length = text.length;
        stat.kind = static_cast<uint8_t>(field >> 3);
        break;
      }
      default: message.skip(field);
    }
  }
  return stat;
}

// Turn the id that a `ref` value names into a row of the stat names (UINT64_MAX when there is none).
inline void resolve(Stat& stat, const IdMap& stat_names) {
  if (stat.kind != OX_STAT_REF) return;
  const int32_t row = stat_names.get(static_cast<int64_t>(stat.value), -1);
  stat.value = row < 0 ? UINT64_MAX : static_cast<uint64_t>(row);
}

// Whether the name of a (resolved) stat, or the one that it refers to, is not in the file.
inline bool nameless(const Stat& stat, const IdMap& stat_names) {
  return stat_names.get(static_cast<int64_t>(stat.id), -1) < 0 || (stat.kind == OX_STAT_REF && stat.value == UINT64_MAX);
}

constexpr uint64_t kEvent = tag(4, kBytes);  // of an XLine

// Call visit(segment, i, message, bytes) for each XEvent of a line that counts, in the order of the file: as many as were counted. Whoever gave the
// bytes may change them meanwhile, and everything is sized by these counts.
template <class Visit>
void each_event(const ox_space& space, const Line& line, Visit visit) {
  const bool all = space.window.whole();
  uint64_t i = 0;
  for (const Segment& segment : line.segments) {
    Fields fields(space.source, segment.begin, segment.end);
    const uint64_t last = i + segment.events;
    while (fields.next(kEvent)) {
      const Reader event = fields.message();
      if (!all && !space.window.holds(event, segment.timestamp_ns, space.origin_ns)) continue;
      if (i == last) refuse(OX_CHANGED);
      visit(segment, i++, event, fields.bytes);
    }
    if (i != last) refuse(OX_CHANGED);
  }
}

// `timed`: whether windows will be asked for.
void build_index(ox_space& space, bool timed, int threads);

}  // namespace outpace
