// SPDX-License-Identifier: Apache-2.0
// What a trace file is made of, whatever its format: tracks, slices that nest, counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace outpace {

// Bytes on their way to a file descriptor; after an error nothing more is written and `error` holds errno.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) { bytes_.reserve(kBlock + kBlock / 4); }
  void add(const void* data, size_t size) {
    const auto* from = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    if (bytes_.size() >= kBlock) flush();
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void flush();
  int error() const { return error_; }

 private:
  static constexpr size_t kBlock = 1 << 20;
  int fd_, error_ = 0;
  std::vector<uint8_t> bytes_;
};

enum class TrackKind : int32_t { kSection = 1, kSlices = 2, kBytes = 3, kCounter = 4 };

struct Track {
  uint64_t id, parent;  // parent 0: none
  TrackKind kind;
  int32_t rank;
  std::string name, description;
};

// A text with the number that stands for it as long as a lane is written, -1 for none. The text is visible while its slice is opened, no longer: an
// argument's stands in a block of the profile, where the next slice's will.
struct Named {
  std::string_view text;
  int32_t key;
};

struct Argument {
  Named name;
  uint8_t kind;  // OX_STAT_*; a text for OX_STAT_TEXT and OX_STAT_REF
  uint64_t bits;
  Named text;
};

struct Slice {
  Named name;
  std::string_view category;  // "" for none
  int64_t start_ns, end_ns;
  bool leaf;  // nothing nests in it
  const std::vector<Argument>* arguments;
  const uint64_t *flows_out, *flows_out_end, *flows_in, *flows_in_end;
};

// One file format. A lane is a sequence of slices on one track in order of time: open and close come properly nested.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void track(const Track& track) = 0;
  // `names`, `arguments`: how many different keys names of slices and of arguments (also of texts) have on this lane.
  virtual void begin_lane(uint64_t track, size_t names, size_t arguments) = 0;
  virtual void open(const Slice& slice) = 0;
  virtual void close(int64_t end_ns) = 0;  // not for a leaf without duration
  virtual void counter(int64_t at_ns, int64_t value) = 0;
  virtual void finish() = 0;
};

std::unique_ptr<TraceSink> perfetto_sink(Output& out);
std::unique_ptr<TraceSink> json_sink(Output& out);

// `text` with every byte that is no UTF-8 replaced by U+FFFD; `hold` keeps the result alive.
std::string_view valid_utf8(std::string_view text, std::string& hold);

inline int64_t floor_ns(int64_t ps) { return ps >= 0 ? ps / 1000 : -((999 - ps) / 1000); }

}  // namespace outpace
