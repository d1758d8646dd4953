// The first pass: planes, lines and name tables. Events are only counted.
#include <map>

#include "parallel.h"
#include "space.h"

void ox_space::damaged(const uint8_t* at, uint64_t lost, int32_t plane, uint8_t why) {
  const std::lock_guard<std::mutex> hold(lock);
  ++damages_total;
  if (damages.size() < outpace::kMaxDamages) damages.push_back({static_cast<uint64_t>(at - base), lost, plane, why});
}

void ox_space::check(const outpace::Reader& walked, const uint8_t* begin, int32_t plane) {
  if (walked.bad) damaged(begin, static_cast<uint64_t>(walked.end - begin), plane, OX_DAMAGE_MALFORMED);
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

namespace {

void add_owner_stat(Reader message, uint32_t plane, int32_t event_name, ox_space& space) {
  space.spend(kTextCost);
  space.owner_stats.push_back({plane, event_name, read_stat(message, space)});
}

// One entry of an event_metadata or stat_metadata map: key = 1, value = 2 {id, name, ...}.
void read_name(Reader entry, uint32_t plane, bool is_event, ox_space& space) {
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
    if (field == tag(2, kBytes)) name.name = space.text(value.message());
    else if (is_event && field == tag(4, kBytes)) name.display = space.text(value.message());
    else if (is_event && field == tag(5, kBytes)) add_owner_stat(value.message(), plane, row, space);
    else value.skip(field);
  }
  Plane& owner = space.planes[plane];
  (is_event ? owner.event_names : owner.stat_names).set(name.id, row);
  table.push_back(name);
}

void read_plane(Reader message, ox_space& space, std::vector<Segment>& segments) {
  const auto index = static_cast<uint32_t>(space.planes.size());
  space.spend(kPlaneCost);
  space.planes.emplace_back();
  space.planes[index].first_line = static_cast<uint32_t>(space.lines.size());
  const uint8_t* begin = message.at;
  segments.clear();
  while (message.more()) {
    begin = message.at;
    const uint64_t field = message.varint();
    switch (field) {
      case tag(1, kVarint): space.planes[index].id = static_cast<int64_t>(message.varint()); break;
      case tag(2, kBytes): space.planes[index].name = space.text(message.message()); break;
      case tag(3, kBytes): {
        const Reader line = message.message();
        if (message.bad) break;
        space.spend(kLineCost);
        segments.push_back({line.at, line.end, 0, 0, {}, 0});
        if (message.missing > 0) return;  // the line itself tells where it ends too early
        break;
      }
      case tag(4, kBytes):
      case tag(5, kBytes):
      case tag(6, kBytes): {
        const Reader entry = message.message();
        if (!message.whole()) break;  // half a name is none
        if (entry.left() > UINT32_MAX) refuse(OX_TOO_LARGE);
        if (field == tag(6, kBytes)) add_owner_stat(entry, index, -1, space);
        else read_name(entry, index, field == tag(4, kBytes), space);
        break;
      }
      default: message.skip(field);
    }
  }
  space.check(message, begin, static_cast<int32_t>(index));
  if (message.missing > 0) space.damaged(begin, static_cast<uint64_t>(message.end - begin), static_cast<int32_t>(index), OX_DAMAGE_TRUNCATED);
}

// Header fields of a line, and how many events it has (one hop over each).
void read_segment(Segment& segment, int32_t plane, ox_space& space) {
  Reader line(segment.begin, segment.end);
  const uint8_t* begin = line.at;
  while (line.more()) {
    begin = line.at;
    const uint64_t field = line.varint();
    switch (field) {
      case tag(4, kBytes):
        if (line.message().left() > UINT32_MAX) refuse(OX_TOO_LARGE);  // texts are shorter
        if (line.whole()) ++segment.events;
        break;
      case tag(1, kVarint): segment.id = static_cast<int64_t>(line.varint()); break;
      case tag(3, kVarint): segment.timestamp_ns = static_cast<int64_t>(line.varint()); break;
      case tag(2, kBytes): segment.name = space.text(line.message()); break;
      case tag(11, kBytes): {
        const Text display = space.text(line.message());
        if (display.length > 0) segment.name = display;
        break;
      }
      default: line.skip(field);
    }
  }
  space.check(line, begin, plane);
  if (line.missing > 0) {  // the last event is not whole: it was not counted
    space.damaged(begin, static_cast<uint64_t>(line.end - begin), plane, OX_DAMAGE_TRUNCATED);
    segment.end = begin;
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

void build_index(ox_space& space, int threads) {
  Reader all(space.base, space.base + space.size);
  const uint8_t* begin = all.at;
  std::vector<Segment> segments;
  while (all.more()) {
    begin = all.at;
    const uint64_t field = all.varint();
    if (field == tag(1, kBytes)) {
      const auto plane = static_cast<uint32_t>(space.planes.size());
      const Reader message = all.message();
      if (all.bad) break;
      read_plane(message, space, segments);
      parallel(segments.size(), threads, [&](uint64_t i) { return segments[i].end - segments[i].begin; },
               [&](uint64_t i) { read_segment(segments[i], static_cast<int32_t>(plane), space); });
      for (const Segment& segment : segments) space.spend(kEventCost, segment.events);
      merge_lines(plane, segments, space);
    } else if (field == tag(2, kBytes) || field == tag(3, kBytes) || field == tag(4, kBytes)) {
      space.spend(kTextCost);
      space.strings.emplace_back(static_cast<uint8_t>(field >> 3), space.text(all.message()));
    } else {
      all.skip(field);
    }
  }
  space.check(all, begin, -1);
  if (all.missing > 0) space.damaged(all.end, all.missing, static_cast<int32_t>(space.planes.size()) - 1, OX_DAMAGE_TRUNCATED);
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
