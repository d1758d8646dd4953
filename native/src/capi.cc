// SPDX-License-Identifier: Apache-2.0
// The plain part of the C interface: open, close, and copying tables out.
#include <algorithm>
#include <memory>

#include "guard.h"
#include "space.h"

#ifndef OX_ABI
#define OX_ABI 0  // the tests of the core alone
#endif

extern "C" {

uint32_t ox_abi(void) { return OX_ABI; }

int32_t ox_open(const ox_source* source, int32_t timed, uint64_t budget, int32_t threads, ox_space** space) {
  return outpace::guarded([&] {
    auto made = std::make_unique<ox_space>();
    made->source = *source;
    made->budget = budget;
    outpace::build_index(*made, timed != 0, threads);
    *space = made.release();
  });
}

void ox_close(ox_space* space) { delete space; }

int32_t ox_hold(ox_space* space, const uint8_t* memory) {
  space->source.memory = memory;
  return OX_DONE;
}

int32_t ox_merge_stat_names(ox_space* space, const int32_t* row) {
  return outpace::guarded([&] {
    const std::vector<outpace::Name>& names = space->stat_names;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto first = static_cast<size_t>(row[i]);
      if (first > i || names[first].plane != names[i].plane) outpace::refuse(OX_FAILED);
    }
    for (outpace::Plane& plane : space->planes) plane.stat_names.replace(row);
  });
}

int32_t ox_get_sizes(const ox_space* s, ox_sizes* out) {
  return outpace::guarded([&] {
    *out = {s->planes.size(), s->lines.size(), s->events, s->event_names.size(), s->stat_names.size(), s->owner_stats.size(),
            s->strings.size(), s->damages.size(), s->damages_total, s->aggregated.size(), s->clamped, s->nameless_stats, s->origin_ns};
  });
}

int32_t ox_planes(const ox_space* s, int64_t* id, uint64_t* name_at, uint32_t* name_len, uint32_t* first_line) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->planes.size(); ++i) {
      const outpace::Plane& plane = s->planes[i];
      id[i] = plane.id;
      name_at[i] = plane.name.at;
      name_len[i] = plane.name.length;
      first_line[i] = plane.first_line;
    }
  });
}

int32_t ox_lines(const ox_space* s, uint32_t* plane, int64_t* id, int64_t* timestamp_ns, uint64_t* name_at, uint32_t* name_len,
              uint64_t* first_event) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->lines.size(); ++i) {
      const outpace::Line& line = s->lines[i];
      const outpace::Segment& head = line.segments.front();
      plane[i] = line.plane;
      id[i] = head.id;
      timestamp_ns[i] = head.timestamp_ns;
      name_at[i] = head.name.at;
      name_len[i] = head.name.length;
      first_event[i] = line.first_event;
    }
    first_event[s->lines.size()] = s->events;
  });
}

int32_t ox_event_names(const ox_space* s, uint32_t* plane, int64_t* id, uint64_t* name_at, uint32_t* name_len, uint64_t* display_at,
                    uint32_t* display_len) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->event_names.size(); ++i) {
      const outpace::Name& name = s->event_names[i];
      plane[i] = name.plane;
      id[i] = name.id;
      name_at[i] = name.name.at;
      name_len[i] = name.name.length;
      display_at[i] = name.display.at;
      display_len[i] = name.display.length;
    }
  });
}

int32_t ox_stat_names(const ox_space* s, uint32_t* plane, int64_t* id, uint64_t* name_at, uint32_t* name_len) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->stat_names.size(); ++i) {
      const outpace::Name& name = s->stat_names[i];
      plane[i] = name.plane;
      id[i] = name.id;
      name_at[i] = name.name.at;
      name_len[i] = name.name.length;
    }
  });
}

int32_t ox_owner_stats(const ox_space* s, uint32_t* plane, int32_t* event_name, int32_t* stat_name, uint8_t* kind, uint64_t* value,
                    uint32_t* length) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->owner_stats.size(); ++i) {
      const outpace::OwnerStat& owner = s->owner_stats[i];
      plane[i] = owner.plane;
      event_name[i] = owner.event_name;
      stat_name[i] = s->planes[owner.plane].stat_names.get(static_cast<int64_t>(owner.stat.id), -1);
      kind[i] = owner.stat.kind;
      value[i] = owner.stat.value;
      length[i] = owner.stat.length;
    }
  });
}

int32_t ox_strings(const ox_space* s, uint8_t* field, uint64_t* at, uint32_t* len) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->strings.size(); ++i) {
      field[i] = s->strings[i].first;
      at[i] = s->strings[i].second.at;
      len[i] = s->strings[i].second.length;
    }
  });
}

int32_t ox_damages(const ox_space* s, uint64_t* at, uint64_t* lost, int32_t* plane, uint8_t* why) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->damages.size(); ++i) {
      at[i] = s->damages[i].at;
      lost[i] = s->damages[i].lost;
      plane[i] = s->damages[i].plane;
      why[i] = s->damages[i].why;
    }
  });
}

int32_t ox_aggregated(const ox_space* s, uint64_t* row, int64_t* occurrences) {
  return outpace::guarded([&] {
    for (size_t i = 0; i < s->aggregated.size(); ++i) {
      row[i] = s->aggregated[i].first;
      occurrences[i] = s->aggregated[i].second;
    }
  });
}

int32_t ox_repeated(const ox_space* s, uint64_t* stats) {
  return outpace::guarded([&] { std::copy(s->repeated.begin(), s->repeated.end(), stats); });
}

}  // extern "C"
