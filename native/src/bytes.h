// SPDX-License-Identifier: Apache-2.0
// The bytes of a profile, in memory or in a file, and the fields of a message that need not fit into memory.
#pragma once

#ifndef _WIN32
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "guard.h"
#include "outpace.h"
#include "wire.h"

namespace outpace {

// Where a text stands in the profile.
struct Text {
  uint64_t at = 0;
  uint32_t length = 0;
};

#if defined(__SANITIZE_ADDRESS__)
#define OX_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OX_SANITIZED
#endif
#endif

// What one thread sees of a profile: all of it, or a block of the file, read anew where other bytes are asked for.
class Bytes {
 public:
  explicit Bytes(const ox_source& source) : source_(source), data_(source.memory), visible_(source.memory == nullptr ? 0 : source.size) {}

  // The bytes [at, at + length), as far as there are any; they are visible until the next call. Nothing that lives longer may point to them.
  Reader show(uint64_t at, uint64_t length) {
    at = std::min(at, source_.size);
    length = std::min(length, source_.size - at);
    if (at < at_ || at + length > at_ + visible_) load(at, length);
    const uint8_t* begin = lend(at, length);
    return Reader(begin, begin + length);
  }
#ifndef OX_SANITIZED
  uint64_t offset(const uint8_t* visible) const { return at_ + static_cast<uint64_t>(visible - data_); }
#else
  uint64_t offset(const uint8_t* visible) const { return source_.memory != nullptr ? visible - data_ : lent_at_ + (visible - lent_.get()); }
#endif
  Text text(const Reader& r) const { return {offset(r.at), static_cast<uint32_t>(std::min<uint64_t>(r.left(), UINT32_MAX))}; }

 private:
  // Bytes read at a time: few after a leap, since the next may follow, then twice as many each time.
  static constexpr uint64_t kLeast = 4096, kUsual = 256 << 10;

#ifndef OX_SANITIZED
  const uint8_t* lend(uint64_t at, uint64_t) { return data_ + (at - at_); }
#else
  // What is shown of a file is a copy of these bytes alone, which the next call frees: the sanitizer stops at whatever looks beyond them, or at
  // them later, also where the block still holds them. (Not from `new`, which the tests let fail.)
  const uint8_t* lend(uint64_t at, uint64_t length) {
    if (source_.memory != nullptr) return data_ + at;
    lent_.reset(static_cast<uint8_t*>(std::malloc(std::max<uint64_t>(length, 1))));
    if (length > 0) std::memcpy(lent_.get(), data_ + (at - at_), length);
    lent_at_ = at;
    return lent_.get();
  }
  struct Free {
    void operator()(uint8_t* lent) const { std::free(lent); }
  };
  uint64_t lent_at_ = 0;
  std::unique_ptr<uint8_t, Free> lent_;
#endif

  [[gnu::cold, gnu::noinline]] void load(uint64_t at, uint64_t length) {
    const uint64_t most = source_.block == 0 ? kUsual : source_.block;
    const bool goes_on = at > at_ && at <= at_ + visible_;
    ahead_ = std::min(most, goes_on ? ahead_ * 2 : kLeast);
    visible_ = 0;  // until all is read
    const uint64_t wanted = std::min(std::max(length, ahead_), source_.size - at);
    if (wanted > room_ || room_ > 4 * std::max(wanted, most)) {
      room_ = 0;
      block_.reset();
      block_.reset(new uint8_t[std::max<uint64_t>(wanted, 1)]);
      room_ = wanted;
    }
    read(at, wanted);
    data_ = block_.get();
    at_ = at;
    visible_ = wanted;
  }

  void read([[maybe_unused]] uint64_t at, [[maybe_unused]] uint64_t count) {
#ifdef _WIN32
    refuse(OX_FAILED);  // there, files are read into memory first
#else
    for (uint64_t got = 0; got < count;) {
      const ssize_t more = ::pread(static_cast<int>(source_.file), block_.get() + got, count - got, static_cast<off_t>(at + got));
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) refuse(more < 0 ? OX_UNREADABLE : OX_CHANGED);
      got += static_cast<uint64_t>(more);
    }
#endif
  }

  const ox_source source_;
  const uint8_t* data_;
  uint64_t at_ = 0, visible_, room_ = 0, ahead_ = kLeast;
  std::unique_ptr<uint8_t[]> block_;
};

// The fields of the message [begin, end) of a profile, in order. Only what is asked for is read.
class Fields {
 public:
  Fields(const ox_source& source, uint64_t begin, uint64_t end) : bytes(source), next_(begin), end_(end) {}

  Bytes bytes;
  uint64_t begin = 0;         // of the field
  uint64_t tag = 0;
  uint64_t value = 0;         // of a number
  uint64_t from = 0, to = 0;  // the bytes of a message or a text
  uint64_t missing = 0;       // of those, what the field claims beyond the end
  bool bad = false;           // what followed was no field

  // Go to the next field; false at the end, and where there is none.
  bool next() {
    if (next_ >= end_) return false;
    begin = next_;
    Reader head = bytes.show(begin, std::min(kHead, end_ - begin));
    tag = head.varint();
    if ((tag & 7) != kBytes) {
      Reader number = head;
      if ((tag & 7) == kVarint) value = number.varint();
      head.skip(tag);
      next_ = bytes.offset(head.at);
    } else {
      const uint64_t length = head.varint();
      from = bytes.offset(head.at);
      if (length > end_ - from) missing = length - (end_ - from);
      next_ = to = from + length - missing;
    }
    if (!head.bad && tag >> 3 != 0) return true;
    bad = true;
    next_ = end_;
    return false;
  }
  // Go to the next one with this tag; false where none follows, or it is not whole.
  bool next(uint64_t wanted) {
    while (next()) {
      if (tag == wanted) return whole();
    }
    return false;
  }
  // The bytes of a message or a text, until the next call of either.
  Reader message() { return bytes.show(from, to - from); }
  // Nothing was wrong so far.
  bool whole() const { return !bad && missing == 0; }
  uint64_t end() const { return end_; }

 private:
  static constexpr uint64_t kHead = 20;  // a tag and a number take 10 bytes each at most

  uint64_t next_, end_;
};

}  // namespace outpace
