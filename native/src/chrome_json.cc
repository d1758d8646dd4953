// SPDX-License-Identifier: Apache-2.0
// Chrome's Trace Event Format (JSON): what chrome://tracing, Perfetto and many other viewers read. Larger and slower than Perfetto's own format.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "outpace.h"
#include "trace_sink.h"

namespace outpace {
namespace {

constexpr uint64_t kExact = uint64_t{1} << 53;  // integers up to here survive JavaScript

class JsonSink : public TraceSink {
 public:
  explicit JsonSink(Output& out) : out_(out) { out_.add("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"); }

  void track(const Track& track) override {
    Place& place = places_[track.id];
    const auto parent = places_.find(track.parent);
    if (track.kind == TrackKind::kSection) place.process = ++processes_;
    else place.process = parent == places_.end() ? 0 : parent->second.process;
    if (track.kind != TrackKind::kSection) place.thread = ++threads_;
    place.name = track.name;
    if (track.kind == TrackKind::kBytes || track.kind == TrackKind::kCounter) return;
    const bool process = track.kind == TrackKind::kSection;
    metadata(place, process ? "process_name" : "thread_name", "name", track.name, 0);
    metadata(place, process ? "process_sort_index" : "thread_sort_index", "sort_index", {}, track.rank);
    if (process && !track.description.empty()) metadata(place, "process_labels", "labels", track.description, 0);
  }

  void begin_lane(uint64_t track, size_t, size_t) override { place_ = places_[track]; }

  void open(const Slice& slice) override {
    head("X", slice.start_ns);
    line_ += ",\"dur\":";
    micros(slice.end_ns - slice.start_ns);
    line_ += ",\"name\":";
    quote(slice.name.text);
    if (!slice.category.empty()) {
      line_ += ",\"cat\":";
      quote(slice.category);
    }
    if (slice.arguments != nullptr && !slice.arguments->empty()) {
      line_ += ",\"args\":{";
      for (const Argument& argument : *slice.arguments) {
        if (line_.back() != '{') line_ += ',';
        quote(argument.name.text);
        line_ += ':';
        value(argument);
      }
      line_ += '}';
    }
    end();
    for (const uint64_t* id = slice.flows_out; id != slice.flows_out_end; ++id) flow("s", *id, slice.start_ns);
    for (const uint64_t* id = slice.flows_in; id != slice.flows_in_end; ++id) flow("f", *id, slice.start_ns);
  }

  void close(int64_t) override {}

  void counter(int64_t at_ns, int64_t value) override {
    head("C", at_ns);
    line_ += ",\"name\":";
    quote(place_.name);
    line_ += ",\"args\":{\"value\":" + std::to_string(value) + '}';
    end();
  }

  void finish() override { out_.add("\n]}\n"); }

 private:
  struct Place {
    uint64_t process = 0, thread = 0;
    std::string name;
  };

  void head(const char* phase, int64_t at_ns) {
    line_.assign(first_ ? "" : ",\n");
    first_ = false;
    line_ += "{\"ph\":\"";
    line_ += phase;
    line_ += "\",\"pid\":" + std::to_string(place_.process) + ",\"tid\":" + std::to_string(place_.thread) + ",\"ts\":";
    micros(at_ns);
  }

  void end() {
    line_ += '}';
    out_.add(line_);
  }

  void metadata(const Place& place, const char* kind, const char* key, std::string_view text, int32_t number) {
    place_ = place;
    head("M", 0);
    line_ += ",\"name\":\"";
    line_ += kind;
    line_ += "\",\"args\":{\"";
    line_ += key;
    line_ += "\":";
    if (text.data() == nullptr) line_ += std::to_string(number);
    else quote(text);
    line_ += '}';
    end();
  }

  void flow(const char* phase, uint64_t id, int64_t at_ns) {
    head(phase, at_ns);
    line_ += ",\"cat\":\"launch\",\"name\":\"launch\",\"bp\":\"e\",\"id\":" + std::to_string(id);
    end();
  }

  void value(const Argument& argument) {
    switch (argument.kind) {
      case OX_STAT_DOUBLE: {
        double number;
        std::memcpy(&number, &argument.bits, 8);
        char text[32];
        std::snprintf(text, sizeof text, "%.17g", number);
        if (std::isfinite(number)) line_ += text;
        else quote(text);
        return;
      }
      case OX_STAT_UINT: integer(std::to_string(argument.bits), argument.bits <= kExact); return;
      case OX_STAT_INT: {
        const auto number = static_cast<int64_t>(argument.bits);
        integer(std::to_string(number), number <= static_cast<int64_t>(kExact) && number >= -static_cast<int64_t>(kExact));
        return;
      }
      default: quote(argument.text.text);
    }
  }

  void integer(const std::string& digits, bool exact) {
    if (!exact) line_ += '"';
    line_ += digits;
    if (!exact) line_ += '"';
  }

  void micros(int64_t ns) {
    char text[32];
    line_.append(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000))));
  }

  void quote(std::string_view text) {
    line_ += '"';
    for (const char c : valid_utf8(text, scratch_)) {
      if (c == '"' || c == '\\') {
        line_ += '\\';
        line_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        line_ += escaped;
      } else {
        line_ += c;
      }
    }
    line_ += '"';
  }

  Output& out_;
  bool first_ = true;
  uint64_t processes_ = 0, threads_ = 0;
  std::map<uint64_t, Place> places_;
  Place place_;
  std::string line_, scratch_;
};

}  // namespace

std::unique_ptr<TraceSink> json_sink(Output& out) { return std::make_unique<JsonSink>(out); }

}  // namespace outpace
