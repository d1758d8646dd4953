// SPDX-License-Identifier: Apache-2.0
// The first pass: planes, lines and name tables. Events are only counted.
#include <algorithm>
#include <map>

#include "parallel.h"
#include "space.h"

void ox_space::damaged(uint64_t at, uint64_t lost, int32_t plane, uint8_t why) {
  const std::lock_guard<std::mutex> hold(lock);
  ++damages_total;
  if (damages.size() < outpace::kMaxDamages) damages.push_back({at, lost, plane, why});
}

void ox_space::in_order() {
  std::stable_sort(damages.begin(), damages.end(), [](const outpace::Damage& a, const outpace::Damage& b) { return a.at < b.at; });
}

namespace outpace {

void IdMap::set(int64_t id, int32_t row) {
  const auto key = static_cast<uint64_t>(id);
  const bool is_sparse = key >= kSlack + kPerEntry * entries_++;
  if (get(id, -1) >= 0) return;  // the first entry of an id counts, wherever it stands
  if (is_sparse) {
    sparse_.emplace(key, row);
    return;
  }
  if (key >= dense_.size()) dense_.resize(key + 1, -1);
  dense_[key] = row;
}

void IdMap::replace(const int32_t* row) {
  for (int32_t& each : dense_) each = each < 0 ? each : row[each];
  for (auto& [id, each] : sparse_) each = row[each];
}

namespace {

Text text_of(const Fields& fields) { return {fields.from, static_cast<uint32_t>(std::min<uint64_t>(fields.to - fields.from, UINT32_MAX))}; }

void add_owner_stat(Reader message, const Bytes& bytes, uint32_t plane, int32_t event_name, ox_space& space) {
  space.spend(kTextCost);
  space.owner_stats.push_back({plane, event_name, read_stat(message, bytes)});
}

// One entry of an event_metadata or stat_metadata map: key = 1, value = 2 {id, name, ...}.
void read_name(Reader entry, const Bytes& bytes, uint32_t plane, bool is_event, ox_space& space) {
  std::vector<Name>& table = is_event ? space.event_names : space.stat_names;
  const auto row = static_cast<int32_t>(table.size());
  space.spend(is_event ? kEventNameCost : kStatNameCost);
  Name name{plane, 0, {}, {}};
  Reader value(entry.end, entry.end);
  while (entry.more()) {
    const uint64_t field = entry.varint();
    if (field == tag(1, kVarint)) name.id = static_cast<int64_t>(entry.varint());
    else if (field == tag(2, kBytes)) value = entry.message();
    else entry.skip(field);
  }
  while (value.more()) {
    const uint64_t field = value.varint();
    if (field == tag(2, kBytes)) name.name = bytes.text(value.message());
    else if (is_event && field == tag(4, kBytes)) name.display = bytes.text(value.message());
    else if (is_event && field == tag(5, kBytes)) add_owner_stat(value.message(), bytes, plane, row, space);
    else value.skip(field);
  }
  Plane& owner = space.planes[plane];
  (is_event ? owner.event_names : owner.stat_names).set(name.id, row);
  table.push_back(name);
}

// Note what a walk over fields could not read.
void check(const Fields& walked, int32_t plane, ox_space& space) {
  if (walked.bad) space.damaged(walked.begin, walked.end() - walked.begin, plane, OX_DAMAGE_MALFORMED);
}

void read_plane(uint64_t from, uint64_t to, ox_space& space, std::vector<Segment>& segments) {
  const auto index = static_cast<uint32_t>(space.planes.size());
  space.spend(kPlaneCost);
  space.planes.emplace_back();
  space.planes[index].first_line = static_cast<uint32_t>(space.lines.size());
  segments.clear();
  Fields fields(space.source, from, to);
  while (fields.next()) {
    switch (fields.tag) {
      case tag(1, kVarint): space.planes[index].id = static_cast<int64_t>(fields.value); break;
      case tag(2, kBytes): space.planes[index].name = text_of(fields); break;
      case tag(3, kBytes): {
        space.spend(kLineCost);
        segments.push_back({fields.from, fields.to, 0, 0, {}, 0, {}});
        if (fields.missing > 0) return;  // the line itself tells where it ends too early
        break;
      }
      case tag(4, kBytes):
      case tag(5, kBytes):
      case tag(6, kBytes): {
        if (!fields.whole()) break;  // half a name is none
        if (fields.to - fields.from > UINT32_MAX) refuse(OX_TOO_LARGE);
        const Reader entry = fields.message();
        if (fields.tag == tag(6, kBytes)) add_owner_stat(entry, fields.bytes, index, -1, space);
        else read_name(entry, fields.bytes, index, fields.tag == tag(4, kBytes), space);
        break;
      }
    }
  }
  check(fields, static_cast<int32_t>(index), space);
  if (fields.missing > 0) space.damaged(fields.begin, to - fields.begin, static_cast<int32_t>(index), OX_DAMAGE_TRUNCATED);
}

// Header fields of a line, and how many events it has (one hop over each, unless their times are wanted).
void read_segment(Segment& segment, int32_t plane, bool timed, ox_space& space) {
  Fields fields(space.source, segment.begin, segment.end);
  while (fields.next()) {
    switch (fields.tag) {
      case kEvent:
        if (fields.to - fields.from > UINT32_MAX) refuse(OX_TOO_LARGE);  // texts are shorter
        if (!fields.whole()) break;
        if (timed) segment.note(fields, segment.events);
        ++segment.events;
        break;
      case tag(1, kVarint): segment.id = static_cast<int64_t>(fields.value); break;
      case tag(3, kVarint): segment.timestamp_ns = static_cast<int64_t>(fields.value); break;
      case tag(2, kBytes): segment.name = text_of(fields); break;
      case tag(11, kBytes): {
        const Text display = text_of(fields);
        if (display.length > 0) segment.name = display;
        break;
      }
    }
  }
  check(fields, plane, space);
  if (fields.missing > 0) {  // the last event is not whole: it was not counted
    space.damaged(fields.begin, segment.end - fields.begin, plane, OX_DAMAGE_TRUNCATED);
    segment.end = fields.begin;
  }
}

// Segments with one id are one timeline (the comment on XLine.id says so).
void merge_lines(uint32_t plane, const std::vector<Segment>& segments, ox_space& space) {
  std::map<int64_t, size_t> line_of;
  for (const Segment& segment : segments) {
    const auto [found, is_new] = line_of.emplace(segment.id, space.lines.size());
    if (is_new) space.lines.push_back({plane, {}, 0, 0, {}, {}});
    Line& line = space.lines[found->second];
    line.segments.push_back(segment);
    line.events += segment.events;
  }
}

}  // namespace

void build_index(ox_space& space, bool timed, int threads) {
  Fields all(space.source, 0, space.source.size);
  std::vector<Segment> segments;
  while (all.next()) {
    if (all.tag == tag(1, kBytes)) {
      const auto plane = static_cast<uint32_t>(space.planes.size());
      read_plane(all.from, all.to, space, segments);
      parallel(segments.size(), threads, [&](uint64_t i) { return segments[i].end - segments[i].begin; },
               [&](uint64_t i) { read_segment(segments[i], static_cast<int32_t>(plane), timed, space); });
      for (const Segment& segment : segments) space.spend(kEventCost, segment.events);
      merge_lines(plane, segments, space);
    } else if (all.tag == tag(2, kBytes) || all.tag == tag(3, kBytes) || all.tag == tag(4, kBytes)) {
      space.spend(kTextCost);
      space.strings.emplace_back(static_cast<uint8_t>(all.tag >> 3), text_of(all));
    }
  }
  check(all, -1, space);
  if (all.missing > 0) space.damaged(space.source.size, all.missing, static_cast<int32_t>(space.planes.size()) - 1, OX_DAMAGE_TRUNCATED);
  space.in_order();
  for (OwnerStat& owner : space.owner_stats) resolve(owner.stat, space.planes[owner.plane].stat_names);
  bool first = true;
  for (Line& line : space.lines) {
    line.first_event = space.events;
    space.events += line.events;
    for (const Segment& segment : line.segments) {
      if (segment.events == 0) continue;
      if (first || segment.timestamp_ns < space.origin_ns) space.origin_ns = segment.timestamp_ns;
      first = false;
    }
  }
}

}  // namespace outpace
