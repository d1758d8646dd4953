// SPDX-License-Identifier: Apache-2.0
// The wire reader on single fields, and the whole decoder on small profiles written here byte by byte.
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

#include "../src/wire.h"
#include "check.h"
#include "outpace.h"

namespace {

using outpace::Reader;
using outpace_test::expect;
using Bytes = std::string;

Reader reader(const Bytes& data) {
  const auto* begin = reinterpret_cast<const uint8_t*>(data.data());
  return Reader(begin, begin + data.size());
}

Bytes varint(uint64_t value) {
  Bytes out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

Bytes number(unsigned field, int64_t value) { return varint(outpace::tag(field, outpace::kVarint)) + varint(static_cast<uint64_t>(value)); }
Bytes bytes(unsigned field, const Bytes& value) { return varint(outpace::tag(field, outpace::kBytes)) + varint(value.size()) + value; }

void varints() {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35, UINT64_MAX}) {
    const Bytes data = varint(value);
    Reader r = reader(data);
    expect("a varint is read back", r.varint() == value && r.whole() && !r.more());
    if (data.size() == 1) continue;
    const Bytes cut = data.substr(0, data.size() - 1);
    Reader short_one = reader(cut);
    short_one.varint();
    expect("a cut varint is a fault", short_one.bad && !short_one.more());
  }
  const Bytes endless(11, '\xff');
  Reader r = reader(endless);
  r.varint();
  expect("eleven bytes are no varint", r.bad);
  const Bytes padded = Bytes(3, '\x80') + Bytes(1, '\0');
  Reader zero = reader(padded);
  expect("a padded zero is zero", zero.varint() == 0 && zero.whole());
}

void fields() {
  const Bytes seven(7, 'x');
  Reader fixed = reader(seven);
  fixed.fixed64();
  expect("seven bytes are no fixed64", fixed.bad);
  const Bytes beyond = varint(10) + "abc";
  Reader outer = reader(beyond);
  const Reader inner = outer.message();
  expect("a message that claims too much gives what there is", inner.left() == 3 && outer.missing == 7 && !outer.bad && !outer.whole());
  const Bytes huge = varint(UINT64_MAX) + "abc";
  Reader wide = reader(huge);
  expect("a length near 2^64 does not wrap", wide.message().left() == 3 && wide.missing == UINT64_MAX - 3);
  for (const unsigned type : {3u, 4u, 6u, 7u}) {
    Reader r = reader(seven);
    r.skip(outpace::tag(1, type));
    expect("groups and unknown wire types are faults", r.bad);
  }
  Reader none = reader(seven);
  none.skip(outpace::tag(0, outpace::kVarint));
  expect("there is no field 0", none.bad);
  const Bytes three(3, 'x');
  Reader fixed32 = reader(three);
  fixed32.skip(outpace::tag(1, 5));
  expect("three bytes are no fixed32", fixed32.bad);
}

// A file without a name that holds these bytes.
class File {
 public:
  explicit File(const Bytes& content) : file_(std::tmpfile()) {
    expect("a file is written", std::fwrite(content.data(), 1, content.size(), file_) == content.size() && std::fflush(file_) == 0);
  }
  ~File() { std::fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return fileno(file_); }

 private:
  std::FILE* file_;
};

// A decoded profile, for as many stat columns as there are stat names.
struct Decoded {
  ox_sizes sizes{};
  std::vector<int32_t> name, stat_row;
  std::vector<int64_t> start, duration;
  std::vector<uint64_t> bounds, stat_value, occurrence_row, repeated;
  std::vector<uint8_t> stat_kind;
  std::vector<int64_t> occurrences;
};

void take_stats(Decoded& d, ox_space* space) {
  std::vector<int32_t> column;
  for (uint64_t i = 0; i < d.sizes.stat_names; ++i) column.push_back(static_cast<int32_t>(i));
  const auto columns = static_cast<uint32_t>(column.size());
  d.bounds.resize(columns + 1);
  ox_stat_bounds(space, column.data(), columns, d.bounds.data());
  const uint64_t n = d.bounds.back();
  std::vector<uint32_t> length(n);
  d.stat_row.resize(n);
  d.stat_kind.resize(n);
  d.stat_value.resize(n);
  ox_stats(space, column.data(), columns, 2, d.stat_row.data(), d.stat_kind.data(), d.stat_value.data(), length.data());
}

struct Window {
  int64_t begin = INT64_MIN, end = INT64_MAX;
  int32_t touching = 0;
  int64_t first = 0, last = 0;  // of all events, as ox_window answers
};

Decoded decode(const ox_source& source, Window* window) {
  ox_space* space = nullptr;
  ox_open(&source, source.block == 7, UINT64_MAX, 2, &space);
  if (window != nullptr) {
    expect("a window is set", ox_window(space, window->begin, window->end, window->touching, 2, &window->first, &window->last) == OX_DONE);
  }
  Decoded d;
  ox_get_sizes(space, &d.sizes);
  d.name.resize(d.sizes.events);
  d.start.resize(d.sizes.events);
  d.duration.resize(d.sizes.events);
  expect("events are decoded", ox_events(space, 2, d.name.data(), d.start.data(), d.duration.data()) == 0);
  ox_get_sizes(space, &d.sizes);
  d.occurrence_row.resize(d.sizes.aggregated);
  d.occurrences.resize(d.sizes.aggregated);
  ox_aggregated(space, d.occurrence_row.data(), d.occurrences.data());
  d.repeated.resize(d.sizes.stat_names);
  ox_repeated(space, d.repeated.data());
  take_stats(d, space);
  ox_close(space);
  return d;
}

// From memory, and from a file by blocks of every size: the same.
Decoded decode(const Bytes& space_bytes, Window* window = nullptr) {
  const std::vector<uint8_t> data(space_bytes.begin(), space_bytes.end());  // ends where it ends: a string has a zero more
  const Decoded d = decode(ox_source{data.data(), data.size(), -1, 0}, window);
  const File file(space_bytes);
  for (const uint64_t block : {0, 1, 7, 64}) {
    Window again = window == nullptr ? Window{} : *window;
    const Decoded other = decode(ox_source{nullptr, data.size(), file.descriptor(), block}, window == nullptr ? nullptr : &again);
    expect("the span from a file", window == nullptr || (again.first == window->first && again.last == window->last));
    expect<int32_t>("names from a file", other.name, d.name);
    expect<int64_t>("starts from a file", other.start, d.start);
    expect<int64_t>("durations from a file", other.duration, d.duration);
    expect<int32_t>("rows of stats from a file", other.stat_row, d.stat_row);
    expect<uint64_t>("values of stats from a file", other.stat_value, d.stat_value);
    expect<uint64_t>("repeated stats from a file", other.repeated, d.repeated);
    expect<uint64_t>("rows of aggregated events from a file", other.occurrence_row, d.occurrence_row);
    expect("what else is counted, from a file", std::memcmp(&other.sizes, &d.sizes, sizeof(ox_sizes)) == 0);
  }
  return d;
}

Bytes event(int64_t name, int64_t offset, int64_t duration, const Bytes& rest = "") {
  return bytes(4, number(1, name) + number(2, offset) + number(3, duration) + rest);
}

Bytes stat(int64_t name, unsigned field, int64_t value) { return bytes(4, number(1, name) + number(field, value)); }
Bytes named(unsigned field, int64_t id, const Bytes& name) { return bytes(field, number(1, id) + bytes(2, number(1, id) + bytes(2, name))); }
Bytes line(int64_t id, int64_t timestamp, const Bytes& events) { return bytes(3, number(1, id) + number(3, timestamp) + events); }
Bytes space(const Bytes& plane) { return bytes(1, bytes(2, "/host:CPU") + plane); }

void events_are_sorted() {
  const Bytes events = event(1, 50, 5) + event(2, 10, 5) + event(2, 10, 30) + event(99, 50, 5);
  const Decoded d = decode(space(line(1, 7, events) + named(4, 1, "one") + named(4, 2, "two")));
  expect<int64_t>("start", d.start, {10, 10, 50, 50});
  expect<int64_t>("duration, longer first", d.duration, {30, 5, 5, 5});
  expect<int32_t>("names, the unknown one last", d.name, {1, 1, 0, 2});
  expect("the origin is the line's time", d.sizes.origin_ns == 7 && d.sizes.damages_total == 0);
}

void lines_of_one_id_are_one() {
  const Decoded d = decode(space(line(3, 5, event(1, 0, 1)) + line(4, 6, event(1, 0, 2)) + line(3, 4, event(1, 0, 3))));
  expect("three messages, two lines", d.sizes.lines == 2 && d.sizes.origin_ns == 4);
  expect<int64_t>("start from the common origin", d.start, {0, 1000, 2000});
}

void stats_follow_their_events() {
  const Bytes events = event(1, 50, 5, stat(10, 3, 7) + stat(11, 7, 10)) + event(1, 10, 5, stat(10, 4, -1)) + event(1, 20, 5, stat(12, 3, 1));
  const Decoded d = decode(space(line(1, 0, events) + named(5, 10, "size") + named(5, 11, "ref")));
  expect<uint64_t>("bounds", d.bounds, {0, 2, 3});
  expect<int32_t>("rows after sorting", d.stat_row, {0, 2, 2});
  expect<uint8_t>("kinds", d.stat_kind, {OX_STAT_INT, OX_STAT_UINT, OX_STAT_REF});
  expect<uint64_t>("values; a reference is a row of the names", d.stat_value, {UINT64_MAX, 7, 0});
}

void of_several_stats_of_a_name_the_first_counts() {
  const Bytes twice = event(1, 50, 5, stat(10, 3, 7) + stat(11, 3, 1) + stat(10, 3, 8) + stat(10, 3, 9)), once = event(1, 10, 5, stat(10, 3, 6));
  const Bytes other = line(2, 0, event(1, 1, 1, stat(11, 3, 2) + stat(11, 3, 3)));
  const Bytes names = named(5, 10, "size") + named(5, 11, "id") + named(5, 12, "size");
  const Decoded d = decode(space(line(1, 0, twice + once) + other + names));
  expect<uint64_t>("bounds", d.bounds, {0, 2, 4, 4});
  expect<int32_t>("one value a row", d.stat_row, {0, 1, 1, 2});
  expect<uint64_t>("the first", d.stat_value, {6, 7, 1, 2});
  expect<uint64_t>("the others are counted", d.repeated, {2, 1, 0});
}

void names_that_say_the_same_are_one() {
  const Bytes events = event(1, 5, 1, stat(12, 3, 7) + stat(10, 3, 8)) + event(1, 6, 1, stat(12, 3, 9));
  const Bytes data = space(line(1, 0, events) + named(5, 10, "size") + named(5, 11, "id") + named(5, 12, "size"));
  const std::vector<uint8_t> held(data.begin(), data.end());
  const ox_source source{held.data(), held.size(), -1, 0};
  ox_space* opened = nullptr;
  ox_open(&source, 0, UINT64_MAX, 1, &opened);
  const int32_t behind[] = {2, 1, 2}, first[] = {0, 1, 0}, negative[] = {-1, 1, 2};
  expect("none behind its own", ox_merge_stat_names(opened, behind) == OX_FAILED && ox_merge_stat_names(opened, negative) == OX_FAILED);
  expect("the first stands for both", ox_merge_stat_names(opened, first) == OX_DONE);
  std::vector<int32_t> name(2), row(2);
  std::vector<int64_t> start(2), duration(2);
  ox_events(opened, 1, name.data(), start.data(), duration.data());
  std::vector<uint64_t> repeated(3), value(2);
  ox_repeated(opened, repeated.data());
  expect<uint64_t>("what an event has under both", repeated, {1, 0, 0});
  const int32_t column[] = {0, -1, 0};
  uint64_t bounds[2];
  std::vector<uint8_t> kind(2);
  std::vector<uint32_t> length(2);
  ox_stat_bounds(opened, column, 1, bounds);
  expect("is one value", bounds[1] == 2);
  ox_stats(opened, column, 1, 1, row.data(), kind.data(), value.data(), length.data());
  expect<int32_t>("a row", row, {0, 1});
  expect<uint64_t>("the first in the file", value, {7, 9});
  ox_close(opened);
}

// All events of a profile's only line, with their arguments.
Bytes trace_of(const ox_source& source, int32_t format) {
  std::FILE* file = std::tmpfile();
  ox_space* opened = nullptr;
  ox_open(&source, 0, UINT64_MAX, 1, &opened);
  ox_sizes sizes{};
  ox_get_sizes(opened, &sizes);
  std::vector<int32_t> name(sizes.events);
  std::vector<int64_t> start(sizes.events), duration(sizes.events);
  ox_events(opened, 1, name.data(), start.data(), duration.data());
  const std::vector<uint8_t> wanted(sizes.stat_names, 1);
  ox_export* out = nullptr;
  ox_export_open(fileno(file), format, &out);
  uint64_t slices = 0;
  int32_t error = 0;
  const ox_line_slices line{opened, name.data(), start.data(), duration.data(), nullptr, wanted.data(), 0, 0, 1, 0, nullptr, nullptr, nullptr};
  expect("a track", ox_export_track(out, 1, 0, OX_TRACK_SLICES, 0, "line", 4, nullptr, 0) == OX_DONE);
  expect("a line", ox_export_line(out, &line, &slices) == OX_DONE && slices == sizes.events);
  expect("the end", ox_export_finish(out, &error) == OX_DONE && error == 0);
  ox_export_close(out);
  ox_close(opened);
  Bytes all(static_cast<size_t>(lseek(fileno(file), 0, SEEK_END)), '\0');
  std::rewind(file);
  expect("it is read back", std::fread(all.data(), 1, all.size(), file) == all.size());
  std::fclose(file);
  return all;
}

void traces_from_a_file_have_the_same_texts() {
  Bytes events;
  for (int i = 0; i < 300; ++i) {
    const Bytes said = bytes(5, Bytes(6, i < 150 ? 'A' : 'B') + Bytes(i % 7 == 0 ? 100 : 0, static_cast<char>('a' + i % 5)));
    events += event(1, i, 1, bytes(4, number(1, 10) + said) + (i % 3 == 0 ? stat(10, 3, i) : Bytes()));
  }
  const Bytes all = space(line(1, 0, events) + named(4, 1, "op") + named(5, 10, "text"));
  const std::vector<uint8_t> held(all.begin(), all.end());
  const File file(all);
  for (const int32_t format : {OX_FORMAT_PERFETTO, OX_FORMAT_JSON}) {
    const Bytes known = trace_of(ox_source{held.data(), held.size(), -1, 0}, format);
    expect("both texts are there", known.find("AAAAAA") != Bytes::npos && known.find("BBBBBB") != Bytes::npos);
    for (const uint64_t block : {0, 1, 64, 300}) {
      expect("the same bytes", trace_of(ox_source{nullptr, held.size(), file.descriptor(), block}, format) == known);
    }
  }
}

void impossible_times_are_clamped() {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  const Bytes wild = line(1, least, event(1, least, least) + event(1, most, most)) + line(2, most, event(1, most, most));
  const Decoded d = decode(space(wild + named(4, 1, "x")));
  expect("all are counted", d.sizes.clamped == 3 && d.sizes.events == 3);
  for (size_t i = 0; i < d.start.size(); ++i) {
    expect("an end fits", d.duration[i] >= 0 && d.start[i] / 2 + d.duration[i] / 2 < most / 2);
  }
}

void lost_names_are_counted_where_bytes_are_lost() {
  const Bytes events = event(1, 5, 1, stat(10, 3, 7)) + event(1, 6, 1, stat(11, 7, 12)) + event(1, 7, 1, stat(12, 3, 7));
  const Bytes names = named(4, 1, "op") + named(5, 10, "size") + named(5, 11, "ref"), last = named(5, 12, "text");
  const Bytes whole = bytes(2, "/host:CPU") + line(1, 0, events) + names;
  expect("what no name was written for is not lost", decode(bytes(1, whole)).sizes.nameless_stats == 0);
  for (size_t cut = 1; cut < last.size(); ++cut) {
    const Bytes all = bytes(1, whole + last);
    const Decoded d = decode(all.substr(0, all.size() - cut));
    expect("a name that is cut is none: its own stat, and one that refers to it", d.sizes.nameless_stats == 2 && d.sizes.stat_names == 2);
  }
}

void an_id_has_one_name_however_it_is_kept() {
  // The id 500 comes first while the table is too small for it; later the table has grown.
  Bytes names = named(4, 500, "first");
  for (int64_t id = 1; id < 60; ++id) names += named(4, id, "x");
  const Decoded d = decode(space(line(1, 0, event(500, 0, 1)) + names + named(4, 500, "second")));
  expect<int32_t>("the first one", d.name, {0});
}

void aggregated_events_are_told() {
  const Bytes events = event(1, 5, 1) + bytes(4, number(1, 1) + number(5, 12) + number(3, 3));
  const Decoded d = decode(space(line(1, 0, events)));
  expect<uint64_t>("row after sorting", d.occurrence_row, {0});
  expect<int64_t>("occurrences", d.occurrences, {12});
}

void a_window_holds_what_lies_in_it() {
  const Bytes seven = stat(10, 3, 7);
  // Around the window, across its beginning, at it, inside, an instant at its end, across its end; out of order on a second line.
  const Bytes one = event(1, 0, 100) + event(1, 15, 10, seven) + event(1, 20, 10, seven) + event(1, 25, 2) + event(1, 40, 0, seven) + event(1, 35, 10);
  const Bytes two = event(2, 50, 5, seven) + event(2, 30, 5, seven) + event(2, 20, 5);
  const Bytes all = space(line(1, 0, one) + line(2, 0, two) + named(4, 1, "a") + named(4, 2, "b") + named(5, 10, "size"));
  Window lies{20, 40};
  const Decoded in = decode(all, &lies);
  expect<int64_t>("what lies in it", in.start, {20, 25, 20, 30});
  expect<int32_t>("with their names", in.name, {0, 0, 1, 1});
  expect<int32_t>("and stats, by their rows among these", in.stat_row, {0, 3});
  expect("the span is that of all events", lies.first == 0 && lies.last == 100);
  Window reaches{20, 40, 1};
  expect<int64_t>("what reaches into it", decode(all, &reaches).start, {0, 15, 20, 25, 35, 20, 30});
  Window open;
  expect("no bounds, all events", decode(all, &open).start == decode(all).start);
  Window wild;
  decode(space(line(1, 0, event(1, int64_t{1} << 57, 1) + event(1, 3, 4))), &wild);
  expect("a time that cannot be is none of the span", wild.first == 3 && wild.last == 7);
  Window hidden;  // it ends at a time that can be
  decode(space(line(1, 0, event(1, -(int64_t{1} << 55), int64_t{86469} * 1000000000000) + event(1, 3, 4))), &hidden);
  expect("nor is an event that lasts too long", hidden.first == 3 && hidden.last == 7);
  Window nothing{200, 300};
  expect("none there", decode(all, &nothing).start.empty() && nothing.last == 100);
}

void a_file_that_gets_shorter_has_changed() {
  Bytes events;
  for (int i = 0; i < 1000; ++i) events += event(1, i, 1);
  const Bytes whole = space(line(1, 0, events) + named(4, 1, "op"));
  const File file(whole);
  const ox_source source{nullptr, whole.size(), file.descriptor(), 0};
  ox_space* opened = nullptr;
  expect("it opens", ox_open(&source, 0, UINT64_MAX, 1, &opened) == OX_DONE);
  expect("it is cut", ftruncate(file.descriptor(), 500) == 0);
  std::vector<int32_t> name(1000);
  std::vector<int64_t> start(1000), duration(1000);
  expect("and a pass says so", ox_events(opened, 1, name.data(), start.data(), duration.data()) == OX_CHANGED);
  const std::vector<uint8_t> held(whole.begin(), whole.end());
  expect("what is held in memory instead is read there", ox_hold(opened, held.data()) == OX_DONE);
  expect("from then on", ox_events(opened, 1, name.data(), start.data(), duration.data()) == OX_DONE && start[999] == 999);
  ox_close(opened);
  const ox_source none{nullptr, 8, -1, 0};
  expect("what cannot be read", ox_open(&none, 0, UINT64_MAX, 1, &opened) == OX_UNREADABLE);
}

void every_prefix_decodes() {
  const Bytes events = event(1, 50, 5, stat(10, 3, 7)) + event(1, 10, 5) + event(1, 20, 5);
  const Bytes whole = space(line(1, 0, events) + named(4, 1, "op") + named(5, 10, "size"));
  uint64_t seen = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const Decoded d = decode(cut);
    expect("more bytes never lose an event", d.sizes.events >= seen);
    expect("a cut is told", size == 0 || d.sizes.damages_total > 0);
    seen = d.sizes.events;
  }
  expect("all events stand before the names", seen == 3 && decode(whole).sizes.damages_total == 0);
}

}  // namespace

int main() {
  varints();
  fields();
  events_are_sorted();
  lines_of_one_id_are_one();
  stats_follow_their_events();
  of_several_stats_of_a_name_the_first_counts();
  names_that_say_the_same_are_one();
  traces_from_a_file_have_the_same_texts();
  impossible_times_are_clamped();
  lost_names_are_counted_where_bytes_are_lost();
  an_id_has_one_name_however_it_is_kept();
  aggregated_events_are_told();
  a_window_holds_what_lies_in_it();
  a_file_that_gets_shorter_has_changed();
  every_prefix_decodes();
  return outpace_test::finish("decoding");
}
