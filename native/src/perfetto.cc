// SPDX-License-Identifier: Apache-2.0
// Perfetto's native trace format: a stream of TracePacket messages (protos/perfetto/trace in google/perfetto).
//
// Sections are plain tracks, not processes: the viewer orders the tracks of a process by name, those of a track by their ranks.
// A lane is a packet sequence of its own: names are written once per sequence and then stand as small numbers, the track is a default of the
// sequence, and a packet's timestamp is the distance to the one before.
#include <algorithm>
#include <deque>

#include "outpace.h"
#include "trace_sink.h"
#include "wire.h"

namespace outpace {
namespace {

enum EventType : uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounterValue = 4 };
constexpr uint64_t kIncrementalClock = 64, kBootTime = 6;  // 64 is the first clock id that belongs to a sequence
constexpr size_t kInternedTexts = 4096, kInternedBytes = 16 << 20;  // a lane's texts that are written once; memory must not follow the file

// A message under construction.
class Message {
 public:
  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), size_}; }
  void varint(uint64_t value) {
    uint8_t* at = room(10);
    while (value >= 0x80) {
      *at++ = static_cast<uint8_t>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<uint8_t>(value);
    size_ = static_cast<size_t>(at - bytes_.data());
  }
  void number(unsigned field, uint64_t value) {
    varint(tag(field, kVarint));
    varint(value);
  }
  void fixed64(unsigned field, uint64_t bits) {
    varint(tag(field, kFixed64));
    std::memcpy(room(8), &bits, 8);
    size_ += 8;
  }
  void bytes(unsigned field, std::string_view value) {
    varint(tag(field, kBytes));
    varint(value.size());
    if (value.empty()) return;
    std::memcpy(room(value.size()), value.data(), value.size());
    size_ += value.size();
  }
  void message(unsigned field, const Message& value) { bytes(field, value.view()); }

 private:
  uint8_t* room(size_t more) {
    if (size_ + more > bytes_.size()) bytes_.resize(2 * (size_ + more));
    return bytes_.data() + size_;
  }
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(256);
  size_t size_ = 0;
};

// Numbers for things with dense keys, given out from 1 in order of appearance: what is frequent gets a short number.
class Numbers {
 public:
  void reset(size_t keys) {
    if (number_.size() < keys) number_.resize(keys, 0);
    for (const int32_t key : used_) number_[static_cast<size_t>(key)] = 0;
    used_.clear();
  }
  // The number of a key, and whether it is new.
  std::pair<uint32_t, bool> get(int32_t key, uint32_t& last) {
    uint32_t& number = number_[static_cast<size_t>(key)];
    if (number != 0) return {number, false};
    used_.push_back(key);
    number = ++last;
    return {number, true};
  }

 private:
  std::vector<uint32_t> number_;
  std::vector<int32_t> used_;
};

// Numbers for texts without a key, by what they say. It holds copies: the profile's own bytes are visible for one slice.
class InternedTexts {
 public:
  void reset() {
    number_.clear();
    texts_.clear();
    bytes_ = 0;
  }
  // The number of a text (0: it is written where it stands), and whether it is new.
  std::pair<uint32_t, bool> get(std::string_view text, uint32_t& last) {
    const auto found = number_.find(text);
    if (found != number_.end()) return {found->second, false};
    if (texts_.size() >= kInternedTexts || text.size() > kInternedBytes - bytes_) return {0, false};
    bytes_ += text.size();
    number_.emplace(texts_.emplace_back(text), ++last);
    return {last, true};
  }

 private:
  std::deque<std::string> texts_;  // which stay where they are
  std::unordered_map<std::string_view, uint32_t> number_;
  size_t bytes_ = 0;
};

class PerfettoSink : public TraceSink {
 public:
  explicit PerfettoSink(Output& out) : out_(out) {}

  void track(const Track& track) override {
    Message descriptor, part;
    descriptor.number(1, track.id);
    if (track.parent != 0) descriptor.number(5, track.parent);
    descriptor.bytes(2, valid_utf8(track.name, scratch_));
    descriptor.number(15, 3);              // lanes of one line are drawn as one track, and lines that share a name are not:
    descriptor.number(17, track.id >> 32);  // merged are those with the same key
    if (track.kind == TrackKind::kBytes || track.kind == TrackKind::kCounter) {
      part.clear();
      part.number(3, track.kind == TrackKind::kBytes ? 3 : 2);
      descriptor.message(8, part);
    }
    descriptor.number(11, 3);  // children in the order of their ranks
    descriptor.number(12, static_cast<uint64_t>(static_cast<int64_t>(track.rank)));
    if (!track.description.empty()) descriptor.bytes(14, valid_utf8(track.description, scratch_));
    packet_.clear();
    packet_.number(10, 1);
    packet_.message(60, descriptor);
    write();
  }

  void begin_lane(uint64_t track, size_t names, size_t arguments) override {
    names_.reset(names);
    argument_names_.reset(arguments);
    references_.reset(arguments);
    texts_.reset();
    last_name_ = last_argument_name_ = last_text_ = 0;
    track_ = track;
    started_ = false;
  }

  void open(const Slice& slice) override {
    event_.clear();
    interned_.clear();
    event_.number(9, slice.leaf && slice.end_ns == slice.start_ns ? kInstant : kBegin);
    const auto [name, is_new] = names_.get(slice.name.key, last_name_);
    if (is_new) intern(2, name, slice.name.text);
    event_.number(10, name);
    if (!slice.category.empty()) event_.bytes(22, slice.category);
    if (slice.arguments != nullptr) {
      for (const Argument& argument : *slice.arguments) annotate(argument);
    }
    for (const uint64_t* id = slice.flows_out; id != slice.flows_out_end; ++id) event_.fixed64(47, *id);
    for (const uint64_t* id = slice.flows_in; id != slice.flows_in_end; ++id) event_.fixed64(48, *id);
    send(slice.start_ns);
  }

  void close(int64_t end_ns) override {
    event_.clear();
    interned_.clear();
    event_.number(9, kEnd);
    send(end_ns);
  }

  void counter(int64_t at_ns, int64_t value) override {
    event_.clear();
    interned_.clear();
    event_.number(9, kCounterValue);
    event_.number(30, static_cast<uint64_t>(value));
    send(at_ns);
  }

  void finish() override {}

 private:
  // An entry of the sequence's InternedData: {iid, name}.
  void intern(unsigned field, uint32_t number, std::string_view text) {
    part_.clear();
    part_.number(1, number);
    part_.bytes(2, valid_utf8(text, scratch_));
    interned_.message(field, part_);
  }

  void annotate(const Argument& argument) {
    const auto [name, is_new] = argument_names_.get(argument.name.key, last_argument_name_);
    if (is_new) intern(3, name, argument.name.text);
    annotation_.clear();
    annotation_.number(1, name);
    switch (argument.kind) {
      case OX_STAT_DOUBLE: annotation_.fixed64(5, argument.bits); break;
      case OX_STAT_UINT: annotation_.number(3, argument.bits); break;
      case OX_STAT_INT: annotation_.number(4, argument.bits); break;
      default: annotate_text(argument.text);
    }
    event_.message(4, annotation_);
  }

  void annotate_text(const Named& text) {
    const auto [number, is_new] = text.key >= 0 ? references_.get(text.key, last_text_) : texts_.get(text.text, last_text_);
    if (is_new) intern(29, number, text.text);
    if (number > 0) annotation_.number(17, number);
    else annotation_.bytes(6, valid_utf8(text.text, scratch_));
  }

  // The first packet of a sequence: its clock, which starts at the first event, and its track.
  void start(int64_t at_ns) {
    Message clock, defaults, part;
    part.number(1, kIncrementalClock);
    part.number(2, 0);
    part.number(3, 1);
    clock.message(1, part);
    part.clear();
    part.number(1, kBootTime);
    part.number(2, static_cast<uint64_t>(at_ns));
    clock.message(1, part);
    part.clear();
    part.number(11, track_);
    defaults.message(11, part);
    defaults.number(58, kIncrementalClock);
    packet_.clear();
    packet_.number(10, ++sequence_);
    packet_.number(13, 1);  // SEQ_INCREMENTAL_STATE_CLEARED
    packet_.message(6, clock);
    packet_.message(59, defaults);
    write();
    started_ = true;
    now_ = at_ns;
  }

  void send(int64_t at_ns) {
    if (!started_) start(at_ns);
    packet_.clear();
    packet_.number(8, static_cast<uint64_t>(at_ns - now_));
    packet_.number(10, sequence_);
    packet_.message(11, event_);
    if (interned_.size() > 0) packet_.message(12, interned_);
    now_ = at_ns;
    write();
  }

  void write() {
    head_.clear();
    head_.varint(tag(1, kBytes));
    head_.varint(packet_.size());
    out_.add(head_.view());
    out_.add(packet_.view());
  }

  Output& out_;
  Message head_, packet_, event_, interned_, annotation_, part_;
  std::string scratch_;
  Numbers names_, argument_names_, references_;
  InternedTexts texts_;
  uint32_t last_name_ = 0, last_argument_name_ = 0, last_text_ = 0;
  uint64_t sequence_ = 1, track_ = 0;
  int64_t now_ = 0;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<TraceSink> perfetto_sink(Output& out) { return std::make_unique<PerfettoSink>(out); }

}  // namespace outpace
