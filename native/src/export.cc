// SPDX-License-Identifier: Apache-2.0
// Trace files for viewers: lays the slices of a line out in lanes and hands them, properly nested, to the writer of a format.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "guard.h"
#include "lanes.h"
#include "space.h"
#include "trace_sink.h"

namespace outpace {

void Output::flush() {
  const uint8_t* at = bytes_.data();
  size_t left = error_ == 0 ? bytes_.size() : 0;
  while (left > 0) {
    const ssize_t done = ::write(fd_, at, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      error_ = done < 0 ? errno : EIO;
      break;
    }
    at += done;
    left -= static_cast<size_t>(done);
  }
  bytes_.clear();
}

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 for none (overlong forms and surrogates are none).
static size_t sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t head = byte(0);
  if (head < 0x80) return 1;
  const size_t length = head >= 0xC2 && head < 0xE0 ? 2 : head >= 0xE0 && head < 0xF0 ? 3 : head >= 0xF0 && head < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((head == 0xE0 && byte(1) < 0xA0) || (head == 0xED && byte(1) > 0x9F)) return 0;
  if ((head == 0xF0 && byte(1) < 0x90) || (head == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

std::string_view valid_utf8(std::string_view text, std::string& hold) {
  size_t good = 0;
  while (good < text.size()) {
    const size_t length = sequence(text.substr(good));
    if (length == 0) break;
    good += length;
  }
  if (good == text.size()) return text;
  hold.clear();
  while (!text.empty()) {
    const size_t length = sequence(text);
    if (length == 0) hold += "\xEF\xBF\xBD";
    else hold.append(text.data(), length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return hold;
}

}  // namespace outpace

namespace outpace {

// What the lines of one space have in common.
struct Common {
  Texts texts;
  Firsts firsts;

  explicit Common(const ox_space& space) : firsts(space.stat_names.size()) {}
};

}  // namespace outpace

struct ox_export {
  outpace::Output out;
  std::unique_ptr<outpace::TraceSink> sink;
  std::map<uint64_t, outpace::Track> tracks;
  std::map<const ox_space*, outpace::Common> common;  // spaces live longer than what is written of them

  explicit ox_export(int file) : out(file) {}
};

namespace outpace {
namespace {

constexpr char kUnnamed[] = "(name lost)";  // as UNNAMED in outpace/trace/formats/xspace/reader.py

uint64_t lane_id(uint64_t track, uint64_t lane) { return track << 32 | lane; }

std::string text_of(const char* text, uint32_t length) { return length == 0 ? std::string() : std::string(text, length); }

// Write `count` slices: time(i) gives start and duration in ps, fill(i, slice) everything else.
template <class Time, class Fill>
uint64_t write_slices(ox_export& out, uint64_t track, size_t names, size_t arguments, uint64_t count, int64_t shift_ns, Time time, Fill fill) {
  std::vector<uint32_t> lane(count);
  Lanes lanes;
  for (uint64_t i = 0; i < count; ++i) {
    const auto [start, duration] = time(i);
    lane[i] = lanes.place(start, start + duration);
  }
  std::vector<uint64_t> order;  // lane by lane
  if (lanes.count() > 1) {
    order.resize(count);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return lane[a] < lane[b]; });
  }
  std::vector<std::pair<int64_t, int64_t>> open;  // ends, in ps and ns
  Slice slice{};
  for (uint64_t n = 0; n < count; ++n) {
    const uint64_t i = order.empty() ? n : order[n];
    const uint64_t last = n == 0 ? 0 : order.empty() ? n - 1 : order[n - 1];
    if (n == 0 || lane[i] != lane[last]) {
      for (; !open.empty(); open.pop_back()) out.sink->close(open.back().second);
      if (lane[i] > 0) {
        Track more = out.tracks[track];
        more.id = lane_id(track, lane[i]);
        out.sink->track(more);
      }
      out.sink->begin_lane(lane_id(track, lane[i]), names, arguments);
    }
    const auto [start, duration] = time(i);
    const int64_t end = start + duration;
    for (; !open.empty() && open.back().first < end && open.back().first <= start; open.pop_back()) out.sink->close(open.back().second);
    slice.start_ns = shift_ns + floor_ns(start);
    slice.end_ns = shift_ns + floor_ns(end);
    slice.leaf = true;
    if (n + 1 < count && slice.start_ns == slice.end_ns && duration > 0) {
      const uint64_t next = order.empty() ? n + 1 : order[n + 1];
      const auto [next_start, next_duration] = time(next);
      slice.leaf = lane[next] != lane[i] || next_start + next_duration > end;
    }
    fill(i, slice);
    out.sink->open(slice);
    if (!slice.leaf || slice.start_ns != slice.end_ns) open.emplace_back(end, slice.end_ns);
  }
  for (; !open.empty(); open.pop_back()) out.sink->close(open.back().second);
  return count;
}

// The arguments of one event: its own stats, then those that its name carries and it does not.
class Arguments {
 public:
  Arguments(const ox_line_slices& job, const Plane& plane, Common& common)
      : job_(job), space_(*job.space), plane_(plane), texts_(common.texts), firsts_(common.firsts), bytes_(space_.source) {
    const auto owner = static_cast<uint32_t>(&plane - space_.planes.data());
    for (const OwnerStat& stat : space_.owner_stats) {
      if (stat.plane == owner && stat.event_name >= 0) by_name_.emplace_back(stat.event_name, &stat.stat);
    }
    std::stable_sort(by_name_.begin(), by_name_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  // Their texts are visible until the next call.
  const std::vector<Argument>* of(const Text& message, int32_t name) {
    found_.clear();
    firsts_.next();
    Reader event = bytes_.show(message.at, message.length);
    while (event.more()) {
      const uint64_t field = event.varint();
      if (field != tag(4, kBytes)) {
        event.skip(field);
        continue;
      }
      const Reader one = event.message();
      Stat stat = read_stat(one, bytes_);
      resolve(stat, plane_.stat_names);
      std::string_view text;
      if (stat.kind == OX_STAT_TEXT) text = {reinterpret_cast<const char*>(one.at) + (stat.value - bytes_.offset(one.at)), stat.length};
      add(stat, text);
    }
    auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name, [](const auto& entry, int32_t key) { return entry.first < key; });
    for (; at != by_name_.end() && at->first == name; ++at) {
      const Stat& stat = *at->second;
      add(stat, stat.kind == OX_STAT_TEXT ? texts_.of(space_.source, {stat.value, stat.length}) : std::string_view());
    }
    add_long_name(name);
    return &found_;
  }

  // How many keys argument names and texts have: stat names, the long name, event names.
  static size_t keys(const ox_space& space) { return space.stat_names.size() + 1 + space.event_names.size(); }

 private:
  // The name of the event where its slice shows another one (XLA: the whole instruction beside `fusion.12`).
  void add_long_name(int32_t name) {
    if (static_cast<size_t>(name) >= space_.event_names.size()) return;
    const Name& entry = space_.event_names[static_cast<size_t>(name)];
    const std::string_view text = texts_.of(space_.source, entry.name);
    if (entry.display.length == 0 || text.empty() || text == texts_.of(space_.source, entry.display)) return;
    const auto key = static_cast<int32_t>(space_.stat_names.size());
    found_.push_back({{"long_name", key}, OX_STAT_TEXT, 0, {text, key + 1 + name}});
  }

  // Add a stat and what it says, if that is text, unless one of its name came before it.
  void add(const Stat& stat, std::string_view text) {
    const int32_t name = plane_.stat_names.get(static_cast<int64_t>(stat.id), -1);
    if (name < 0 || job_.argument[name] == 0 || !firsts_.add(name)) return;
    Argument argument{{name_of(name), name}, stat.kind, stat.value, {text, -1}};
    if (stat.kind == OX_STAT_NONE || stat.kind == OX_STAT_BYTES) return;  // bytes are protobuf messages: nothing to read in a details pane
    if (stat.kind == OX_STAT_REF) {
      if (stat.value >= space_.stat_names.size()) return;
      argument.text = {name_of(static_cast<int32_t>(stat.value)), static_cast<int32_t>(stat.value)};
    }
    found_.push_back(argument);
  }

  std::string_view name_of(int32_t stat) { return texts_.of(space_.source, space_.stat_names[static_cast<size_t>(stat)].name); }

  const ox_line_slices& job_;
  const ox_space& space_;
  const Plane& plane_;
  Texts& texts_;
  Firsts& firsts_;
  Bytes bytes_;  // of the event at hand
  std::vector<std::pair<int32_t, const Stat*>> by_name_;
  std::vector<Argument> found_;
};

// Where the messages of a line's events stand, by row within the line.
std::vector<Text> messages_of(const ox_space& space, const Line& line) {
  std::vector<Text> messages(line.events);
  each_event(space, line, [&](const Segment&, uint64_t i, const Reader& event, const Bytes& bytes) {
    messages[line.row_of.empty() ? i : line.row_of[i]] = bytes.text(event);
  });
  return messages;
}

uint64_t write_line(ox_export& out, const ox_line_slices& job) {
  const ox_space& space = *job.space;
  const Line& line = space.lines[job.line];
  const Plane& plane = space.planes[line.plane];
  std::vector<uint64_t> rows;  // of the line; only the wanted ones
  rows.reserve(line.events);
  for (uint64_t row = 0; row < line.events; ++row) {
    if (job.mask == nullptr || job.mask[row] != 0) rows.push_back(row);
  }
  const std::vector<Text> messages = job.argument == nullptr ? std::vector<Text>() : messages_of(space, line);
  Common& common = out.common.try_emplace(job.space, space).first->second;
  Texts& texts = common.texts;
  Arguments arguments(job, plane, common);
  std::vector<uint64_t> flows_out, flows_in;
  const auto time = [&](uint64_t i) { return std::make_pair(job.start_ps[rows[i]], job.duration_ps[rows[i]]); };
  const auto fill = [&](uint64_t i, Slice& slice) {
    const auto row = static_cast<int32_t>(line.first_event + rows[i]);  // of the whole space
    const int32_t name = job.name[rows[i]];
    const bool known = static_cast<size_t>(name) < space.event_names.size();
    slice.name = {kUnnamed, name};
    if (known) {
      const Name& entry = space.event_names[static_cast<size_t>(name)];
      slice.name.text = texts.of(space.source, entry.display.length > 0 ? entry.display : entry.name);
    }
    slice.arguments = messages.empty() ? nullptr : arguments.of(messages[rows[i]], name);
    flows_out.clear();
    flows_in.clear();
    const int32_t* end = job.flow_row + job.flows;
    for (const int32_t* at = std::lower_bound(job.flow_row, end, row); at != end && *at == row; ++at) {
      const auto flow = static_cast<size_t>(at - job.flow_row);
      (job.flow_ends[flow] != 0 ? flows_in : flows_out).push_back(job.flow_id[flow]);
    }
    slice.flows_out = flows_out.data();
    slice.flows_out_end = slice.flows_out + flows_out.size();
    slice.flows_in = flows_in.data();
    slice.flows_in_end = slice.flows_in + flows_in.size();
  };
  return write_slices(out, job.track, space.event_names.size() + 1, Arguments::keys(space), rows.size(), job.shift_ns, time, fill);
}

uint64_t write_made(ox_export& out, const ox_made_slices& job) {
  const auto text = [&](uint64_t i) { return std::string_view(job.text + job.text_at[i], job.text_at[i + 1] - job.text_at[i]); };
  std::vector<Argument> arguments;
  const auto time = [&](uint64_t i) { return std::make_pair(job.start_ps[i], job.duration_ps[i]); };
  const auto fill = [&](uint64_t i, Slice& slice) {
    arguments.clear();
    for (uint64_t c = 0; c < job.arguments; ++c) {
      const uint64_t value = job.argument_value[c * job.slices + i];
      const auto name = static_cast<int32_t>(job.argument_name[c]);
      Argument argument{{text(job.argument_name[c]), name}, job.argument_kind[c], value, {{}, -1}};
      if (argument.kind == OX_STAT_TEXT) argument.text = {text(value), static_cast<int32_t>(value)};
      arguments.push_back(argument);
    }
    slice.name = {text(job.name[i]), static_cast<int32_t>(job.name[i])};
    slice.category = job.category == UINT32_MAX ? std::string_view() : text(job.category);
    slice.arguments = &arguments;
  };
  return write_slices(out, job.track, job.texts, job.texts, job.slices, job.shift_ns, time, fill);
}

}  // namespace
}  // namespace outpace

extern "C" {

int32_t ox_export_open(int32_t file, int32_t format, ox_export** out) {
  return outpace::guarded([&] {
    auto made = std::make_unique<ox_export>(file);
    if (format == OX_FORMAT_PERFETTO) made->sink = outpace::perfetto_sink(made->out);
    if (format == OX_FORMAT_JSON) made->sink = outpace::json_sink(made->out);
    if (made->sink == nullptr) throw std::invalid_argument("unknown format");
    *out = made.release();
  });
}

int32_t ox_export_track(ox_export* out, uint64_t track, uint64_t parent, int32_t kind, int32_t rank, const char* name, uint32_t name_len,
                     const char* description, uint32_t description_len) {
  return outpace::guarded([&] {
    const outpace::Track added{outpace::lane_id(track, 0), parent == 0 ? 0 : outpace::lane_id(parent, 0), static_cast<outpace::TrackKind>(kind),
                               rank, outpace::text_of(name, name_len), outpace::text_of(description, description_len)};
    out->tracks[track] = added;
    out->sink->track(added);
  });
}

int32_t ox_export_line(ox_export* out, const ox_line_slices* line, uint64_t* written) {
  return outpace::guarded([&] { *written = outpace::write_line(*out, *line); });
}

int32_t ox_export_made(ox_export* out, const ox_made_slices* made, uint64_t* written) {
  return outpace::guarded([&] { *written = outpace::write_made(*out, *made); });
}

int32_t ox_export_counter(ox_export* out, uint64_t track, uint64_t count, const int64_t* at_ps, const int64_t* value, int64_t shift_ns) {
  return outpace::guarded([&] {
    out->sink->begin_lane(outpace::lane_id(track, 0), 0, 0);
    for (uint64_t i = 0; i < count; ++i) out->sink->counter(shift_ns + outpace::floor_ns(at_ps[i]), value[i]);
  });
}

int32_t ox_export_finish(ox_export* out, int32_t* error) {
  return outpace::guarded([&] {
    out->sink->finish();
    out->out.flush();
    *error = out->out.error();
  });
}

void ox_export_close(ox_export* out) { delete out; }

}  // extern "C"
