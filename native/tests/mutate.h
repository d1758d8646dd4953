// SPDX-License-Identifier: Apache-2.0
// Mutants of protobuf messages: trees of fields that are cut, moved, repeated and filled with numbers that profilers never write, then written
// again, so that most of them get past the first bytes of a reader; and bytes that flip or are missing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "../src/wire.h"

namespace outpace_test {

using Bytes = std::vector<uint8_t>;

// The same numbers in every run with the same seed (splitmix64).
struct Chance {
  uint64_t state;

  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }
  bool one_in(uint64_t n) { return below(n) == 0; }
};

// A field: a number, bytes, or a message of fields.
struct Field {
  uint64_t tag = 0, number = 0;
  int64_t lie = 0;  // what the written length is off by
  Bytes bytes;
  std::vector<Field> fields;
};

inline void put_varint(Bytes& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<uint8_t>(value | 0x80));
  out.push_back(static_cast<uint8_t>(value));
}

// The fields of a message; false where the bytes are none. What could be a message is taken for one.
inline bool parse(outpace::Reader reader, std::vector<Field>& fields, int depth = 0) {
  while (reader.more()) {
    Field field;
    field.tag = reader.varint();
    switch (field.tag & 7) {
      case 0: field.number = reader.varint(); break;
      case 1: field.number = reader.fixed64(); break;
      case 2: {
        const outpace::Reader inner = reader.message();
        if (depth > 8 || !inner.more() || !parse(inner, field.fields, depth + 1)) {
          field.fields.clear();
          field.bytes.assign(inner.at, inner.end);
        }
        break;
      }
      default: return false;
    }
    if (!reader.whole() || field.tag >> 3 == 0 || field.tag >> 3 > 100) return false;
    fields.push_back(std::move(field));
  }
  return true;
}

inline void write(const std::vector<Field>& fields, Bytes& out) {
  for (const Field& field : fields) {
    put_varint(out, field.tag);
    if ((field.tag & 7) == 0) {
      put_varint(out, field.number);
    } else if ((field.tag & 7) == 1) {
      for (int i = 0; i < 8; ++i) out.push_back(static_cast<uint8_t>(field.number >> 8 * i));
    } else {
      Bytes inner = field.bytes;
      write(field.fields, inner);
      put_varint(out, inner.size() + static_cast<uint64_t>(field.lie));
      out.insert(out.end(), inner.begin(), inner.end());
    }
  }
}

// Keep some of each message's fields of a kind that has many: small mutants are fast ones.
inline void thin(std::vector<Field>& fields, uint64_t most, Chance& chance) {
  std::vector<uint64_t> seen(128, 0);
  const auto surplus = [&](const Field& field) { return ++seen[field.tag & 127] > most && !chance.one_in(50); };
  fields.erase(std::remove_if(fields.begin(), fields.end(), surplus), fields.end());
  for (Field& field : fields) thin(field.fields, most, chance);
}

// Give each plane of a profile a stat name of its own, and its events texts under that: few that come again, some that do not, more on some
// events than there is room for in a block.
inline void add_texts(std::vector<Field>& space, Chance& chance) {
  constexpr uint64_t kName = 77;
  const auto number = [](unsigned field, uint64_t value) { return Field{outpace::tag(field, outpace::kVarint), value, 0, {}, {}}; };
  const auto text = [](unsigned field, Bytes value) { return Field{outpace::tag(field, outpace::kBytes), 0, 0, std::move(value), {}}; };
  const auto message = [](unsigned field, std::vector<Field> fields) { return Field{outpace::tag(field, outpace::kBytes), 0, 0, {}, std::move(fields)}; };
  const auto is = [](const Field& field, unsigned number) { return field.tag == outpace::tag(number, outpace::kBytes); };
  for (Field& plane : space) {
    if (!is(plane, 1)) continue;
    for (Field& line : plane.fields) {
      if (!is(line, 3)) continue;
      for (Field& event : line.fields) {
        if (!is(event, 4)) continue;
        for (uint64_t n = chance.below(3); n > 0; --n) {
          const uint64_t kind = chance.one_in(8) ? chance.next() : chance.below(6);
          const Bytes said(1 + kind % 61 * (chance.one_in(30) ? 9 : 1), static_cast<uint8_t>('A' + kind % 23));
          event.fields.push_back(message(4, {number(1, kName), text(5, said)}));
        }
      }
    }
    plane.fields.push_back(message(5, {number(1, kName), message(2, {number(1, kName), text(2, Bytes{'s', 'a', 'i', 'd'})})}));
  }
}

class Mutator {
 public:
  Mutator(std::vector<Field> whole, Chance& chance) : root_(std::move(whole)), chance_(chance) {}

  Bytes mutant() {
    for (uint64_t n = 1 + chance_.below(6); n > 0; --n) change();
    Bytes out;
    write(root_, out);
    if (chance_.one_in(4)) out.resize(chance_.below(out.size() + 1));
    for (uint64_t n = chance_.one_in(3) ? chance_.below(8) : 0; n > 0 && !out.empty(); --n) {
      out[chance_.below(out.size())] = static_cast<uint8_t>(chance_.next());
    }
    out.shrink_to_fit();  // the sanitizer knows where memory ends, not where a vector does
    return out;
  }

 private:
  using Fields = std::vector<Field>;
  static constexpr uint64_t kMostAdded = 20000;  // bytes and fields that one change repeats, about

  static uint64_t weight(const Field& field) {
    uint64_t sum = 1 + field.bytes.size();
    for (const Field& each : field.fields) sum += weight(each);
    return sum;
  }

  // A message drawn from all depths alike.
  Fields& somewhere() {
    Fields* at = &root_;
    for (uint64_t depth = chance_.below(6); depth > 0 && !at->empty(); --depth) {
      Fields& below = (*at)[chance_.below(at->size())].fields;
      if (below.empty()) break;
      at = &below;
    }
    return *at;
  }

  uint64_t odd_number() {
    static const uint64_t odd[] = {0, 1, 127, 128, INT32_MAX, UINT32_MAX, uint64_t{1} << 32, uint64_t{1} << 62, INT64_MAX, uint64_t{1} << 63, UINT64_MAX};
    switch (chance_.below(3)) {
      case 0: return odd[chance_.below(sizeof odd / sizeof *odd)];
      case 1: return chance_.below(64);
      default: return chance_.next() >> chance_.below(64);
    }
  }

  void change() {
    Fields& fields = somewhere();
    if (fields.empty()) return;
    const uint64_t at = chance_.below(fields.size());
    Field& field = fields[at];
    switch (chance_.below(12)) {
      case 0: fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: {
        const Field copy = field;
        const uint64_t most = chance_.one_in(8) ? kMostAdded / weight(copy) : 4;
        fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), 1 + chance_.below(most), copy);
        break;
      }
      case 2: std::swap(field, fields[chance_.below(fields.size())]); break;
      case 3: {
        Field moved = field;
        fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
        somewhere().push_back(std::move(moved));
        break;
      }
      case 4:
      case 5: field.number = odd_number(); break;
      case 6: field.tag = (1 + chance_.below(12)) << 3 | (field.tag & 7); break;
      case 7: field.tag = (field.tag & ~uint64_t{7}) | chance_.below(8); break;
      case 8: field.lie = static_cast<int64_t>(chance_.one_in(2) ? odd_number() : chance_.below(9) - 4); break;
      case 9: {
        field.fields.clear();
        field.bytes.assign(chance_.below(chance_.one_in(20) ? 1 << 17 : 40), static_cast<uint8_t>(chance_.next()));
        break;
      }
      case 10:
        for (Field& other : fields) {
          if ((other.tag & 7) == 0) other.number = field.number;  // ids that are all the same
        }
        break;
      default: std::reverse(fields.begin(), fields.end());
    }
  }

  Fields root_;
  Chance& chance_;
};

}  // namespace outpace_test
