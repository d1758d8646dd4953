// SPDX-License-Identifier: Apache-2.0
// Protobuf wire format, read with every access bounds-checked.
#pragma once

#include <cstdint>
#include <cstring>

namespace outpace {

// A cursor over one message. After a fault `bad` is set and the cursor stands at its end, so that loops over `more()` stop by themselves.
struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  bool bad = false;
  uint64_t missing = 0;  // bytes that a nested message claimed beyond this one's end

  Reader(const uint8_t* begin, const uint8_t* finish) : at(begin), end(finish) {}

  bool more() const { return at < end; }
  uint64_t left() const { return static_cast<uint64_t>(end - at); }

  // Nothing was wrong so far.
  bool whole() const { return !bad && missing == 0; }

  void fail() {
    bad = true;
    at = end;
  }

  uint64_t varint() {
    if (at < end && *at < 0x80) return *at++;
    if (left() >= 8) {  // two to eight bytes at once: find the last one, then squeeze out the continuation bits
      uint64_t word;
      std::memcpy(&word, at, 8);
      const uint64_t stops = ~word & 0x8080808080808080u;
      if (stops != 0) {
        at += (__builtin_ctzll(stops) >> 3) + 1;
        word &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7fu;
        word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
        word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
        return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
      }
    }
    return long_varint();
  }

  uint64_t long_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      const uint8_t byte = *at++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }

  uint64_t fixed64() {
    if (left() < 8) {
      fail();
      return 0;
    }
    uint64_t value;
    std::memcpy(&value, at, 8);
    at += 8;
    return value;
  }

  // A length-delimited field. If it claims more than there is, what is there is returned and `missing` says the rest.
  Reader message() {
    const uint64_t length = varint();
    if (bad) return Reader(end, end);
    if (length > left()) {
      Reader rest(at, end);
      missing = length - left();
      at = end;
      return rest;
    }
    Reader inner(at, at + length);
    at += length;
    return inner;
  }

  void skip(uint64_t tag) {
    switch (tag & 7) {
      case 0: varint(); break;
      case 1: fixed64(); break;
      case 2: message(); break;
      case 5:
        if (left() < 4) fail(); else at += 4;
        break;
      default: fail();
    }
    if (tag >> 3 == 0) fail();  // field number 0 does not exist
  }
};

constexpr uint64_t tag(unsigned field, unsigned wire_type) { return static_cast<uint64_t>(field) << 3 | wire_type; }
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2;

}  // namespace outpace
