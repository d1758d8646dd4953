// SPDX-License-Identifier: Apache-2.0
// The core's algorithms on small hand-made columns.
#include <algorithm>
#include <vector>

#include "check.h"
#include "outpace.h"

namespace {

using outpace_test::expect;

constexpr int64_t kLongest = INT64_MAX / 4;  // what ox_events clamps durations to

struct Nested {
  std::vector<int32_t> parent, end;
  std::vector<int64_t> self;
};

Nested nest(const std::vector<uint64_t>& lines, const std::vector<int64_t>& start, const std::vector<int64_t>& duration,
            const uint8_t* mask = nullptr, int threads = 1) {
  const size_t n = start.size();
  Nested out{std::vector<int32_t>(n), std::vector<int32_t>(n), std::vector<int64_t>(n)};
  ox_nest(lines.size() - 1, lines.data(), start.data(), duration.data(), mask, threads, out.parent.data(), out.end.data(), out.self.data());
  return out;
}

void nesting() {
  // An event of 10, in it one of 4 with an instant at its end, an instant at the outer end, a partial overlap, and a second line.
  const Nested n = nest({0, 6, 7}, {0, 2, 6, 10, 12, 15, 0}, {10, 4, 0, 0, 6, 6, 5});
  expect<int32_t>("parent", n.parent, {-1, 0, 1, 0, -1, -1, -1});
  expect<int32_t>("subtree end", n.end, {4, 3, 3, 4, 5, 6, 7});
  expect<int64_t>("self", n.self, {6, 4, 0, 0, 6, 6, 5});
}

void nesting_of_equal_events() {
  // Equal starts stand longer first; twins nest in file order; instants at one time contain each other and nothing longer.
  const Nested n = nest({0, 5}, {0, 0, 0, 5, 5}, {8, 3, 3, 0, 0});
  expect<int32_t>("parent of twins", n.parent, {-1, 0, 1, 0, 3});
  expect<int32_t>("subtree end of twins", n.end, {5, 3, 3, 5, 5});
  expect<int64_t>("self of twins", n.self, {5, 0, 3, 0, 0});
  const Nested empty = nest({0, 0, 0}, {}, {});
  expect("no event, no result", empty.parent.empty());
}

void nesting_of_overlaps() {
  // Two partial overlaps inside one event: both are its children, and what they have in common is taken from its time once.
  const Nested n = nest({0, 3}, {0, 1, 4}, {10, 5, 5});
  expect<int32_t>("parent of overlaps", n.parent, {-1, 0, 0});
  expect<int64_t>("self around overlaps", n.self, {2, 5, 5});
  // Overlaps longer than any capture, whose sum leaves the range of int64.
  std::vector<int64_t> start{0}, duration{kLongest};
  for (int i = 1; i < 12; ++i) {
    start.push_back(i);
    duration.push_back(kLongest - 12);
  }
  expect("self is what no child takes", nest({0, 12}, start, duration).self[0] == 2);
}

void nesting_with_a_mask() {
  const std::vector<uint8_t> mask{1, 0, 1, 1};
  for (const int threads : {1, 2}) {
    const Nested n = nest({0, 3, 4}, {0, 1, 2, 0}, {10, 8, 4, 3}, mask.data(), threads);
    expect<int32_t>("parent past the masked one", n.parent, {-1, -1, 0, -1});
    expect<int32_t>("subtree end with a mask", n.end, {3, 2, 3, 4});
    expect<int64_t>("self with a mask", n.self, {6, 0, 4, 3});
  }
}

// Pack numbers with entries of `width` bytes, and unpack them all, and by rows.
template <class Value>
void packed(const char* what, const std::vector<Value>& value, uint32_t width, int64_t wanted_unit, uint64_t wanted_aside) {
  const uint64_t count = value.size();
  std::vector<int64_t> base((count + 255) / 256), aside_row, aside;
  std::vector<uint32_t> small(count);
  int64_t unit = 0;
  uint64_t asides[3];
  ox_pack_plan(count, value.data(), sizeof(Value), 2, base.data(), &unit, asides);
  expect(what, unit == wanted_unit && asides[width / 2] == wanted_aside);
  ox_pack(count, value.data(), sizeof(Value), 2, base.data(), unit, width, small.data());
  for (uint64_t i = 0; i < count; ++i) {
    const auto* entry = reinterpret_cast<const uint8_t*>(small.data()) + i * width;
    if (!std::all_of(entry, entry + width, [](uint8_t byte) { return byte == 0xff; })) continue;
    aside_row.push_back(static_cast<int64_t>(i));
    aside.push_back(value[i]);
  }
  expect(what, aside.size() == wanted_aside);
  const ox_packed all{count, aside.size(), unit, small.data(), base.data(), aside_row.data(), aside.data(), width};
  std::vector<Value> out(count);
  ox_unpack(&all, count, nullptr, 0, 0, out.data(), sizeof(Value));
  expect<Value>(what, out, value);
  const std::vector<int32_t> rows{static_cast<int32_t>(count) - 1, 0, -1, 257};
  out.resize(rows.size());
  ox_unpack(&all, rows.size(), rows.data(), 4, 0, out.data(), sizeof(Value));
  expect<Value>(what, out, {value.back(), value[0], value.back(), value[257]});
  for (const int64_t beyond : {static_cast<int64_t>(count), -static_cast<int64_t>(count) - 1, INT64_MIN}) {
    expect("no row beyond", ox_unpack(&all, 1, &beyond, 8, 0, out.data(), sizeof(Value)) == OX_FAILED);
  }
  expect("no rows beyond", ox_unpack(&all, 2, nullptr, 0, count - 1, out.data(), sizeof(Value)) == OX_FAILED);
  expect("no other width", ox_unpack(&all, 1, nullptr, 0, 0, out.data(), 3) == OX_FAILED);
}

void packing() {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < 600; ++i) times.push_back(1000 * (i * i + 5));
  packed("a byte: above the least of 256", times, 1, 1000, 582);
  packed("four bytes hold all", times, 4, 1000, 0);
  times[300] += 1;
  packed("one that is no multiple", times, 4, 1, 0);
  times[301] = INT64_MAX;
  times[302] = INT64_MIN;
  packed("extremes stand aside, and what shares their base", times, 4, 1, 255);
  std::vector<int32_t> codes(70000, -1);
  codes[69999] = INT32_MAX;
  codes[69998] = 254;
  packed("codes, and a full byte", codes, 1, 1, 2);
  packed("codes, and two bytes", codes, 2, 1, 1);
}

std::vector<int32_t> spread(const std::vector<int32_t>& end, const std::vector<int32_t>& cause, const std::vector<int32_t>& effect,
                            const std::vector<int32_t>& rows, const std::vector<int32_t>& groups) {
  std::vector<int32_t> group(end.size(), -1);
  ox_spread(end.size(), end.data(), cause.size(), cause.data(), effect.data(), rows.size(), rows.data(), groups.data(), group.data());
  return group;
}

void spreading() {
  // Rows 0-2 are a tree, row 3 causes nothing, row 4 (with child 5) is caused by row 2; the second root finds its subtree taken.
  expect<int32_t>("group", spread({3, 2, 3, 4, 6, 6}, {2}, {4}, {0, 4}, {7, 8}), {7, 7, 7, -1, 7, 7});
  expect<int32_t>("a circle of causes ends", spread({1, 2, 3}, {0, 1, 2}, {1, 2, 0}, {1}, {5}), {5, 5, 5});
  expect<int32_t>("a root outside is ignored", spread({1, 2}, {0}, {9}, {-1, 7, 0}, {1, 2, 3}), {3, -1});
  expect<int32_t>("a root inside another's subtree keeps the first", spread({3, 3, 3}, {}, {}, {1, 0}, {1, 2}), {2, 1, 1});
  // Each of 700 causes the one 7 rows on and, twice, the last one; the edges come from behind.
  std::vector<int32_t> end, cause, effect, expected;
  for (int32_t row = 0; row < 700; ++row) {
    end.push_back(row + 1);
    expected.push_back(row % 7 == 3 ? 4 : -1);
    for (const int32_t to : {699, 692 - row, 699}) {
      cause.push_back(to == 699 ? row : 692 - row);
      effect.push_back(to == 699 ? 699 : 699 - row);
    }
  }
  expected[699] = 4;
  for (size_t i = 0; i < cause.size();) {
    if (cause[i] >= 0) ++i;
    else cause.erase(cause.begin() + static_cast<int64_t>(i)), effect.erase(effect.begin() + static_cast<int64_t>(i));
  }
  expect<int32_t>("along many edges", spread(end, cause, effect, {3}, {4}), expected);
}

std::vector<int32_t> latest(const std::vector<uint64_t>& cause, const std::vector<int64_t>& cause_time, const std::vector<uint64_t>& effect,
                            const std::vector<int64_t>& effect_time, const std::vector<uint64_t>* second = nullptr) {
  std::vector<int32_t> partner(effect.size());
  const uint64_t* seconds = second == nullptr ? nullptr : second->data();
  ox_latest(cause.size(), cause.data(), seconds, cause_time.data(), effect.size(), effect.data(), seconds, effect_time.data(), 3,
            partner.data());
  return partner;
}

void partners() {
  // The cause before, the one at the same time, the first where all are later, none where the key is another; causes come in any order.
  expect<int32_t>("the latest before", latest({5, 6, 5, 5}, {30, 0, 10, 20}, {5, 5, 5, 9, 6}, {25, 30, 1, 50, 7}), {3, 0, 2, -1, 1});
  expect<int32_t>("of twins the last", latest({5, 5}, {1, 1}, {5}, {1}), {1});
  expect<int32_t>("extreme keys and times", latest({0, UINT64_MAX, 0}, {INT64_MIN, INT64_MAX, 0}, {UINT64_MAX, 0}, {INT64_MIN, INT64_MAX}), {1, 2});
  expect("nothing goes to nothing", latest({}, {}, {}, {}).empty() && latest({}, {}, {1}, {2}) == std::vector<int32_t>{-1});
  std::vector<int32_t> places;
  std::vector<uint64_t> keys;  // that differ in their upper bits only, as addresses do
  std::vector<int64_t> times;
  for (int32_t i = 0; i < 150000; ++i) {  // enough for several threads
    places.push_back(i);
    keys.push_back(static_cast<uint64_t>(i) << 44);
    times.push_back(i);
  }
  expect<int32_t>("each meets itself, though keys come again", latest(keys, times, keys, times), places);
  const std::vector<uint64_t> same(places.size(), 7);
  expect<int32_t>("one key for all", latest(same, times, same, times), places);
  const std::vector<int64_t> once(places.size(), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  expect<int32_t>("keys of two columns", latest(same, once, same, once, &keys), places);
}

std::vector<int64_t> sweep(const std::vector<int32_t>& group, const std::vector<uint8_t>& priority, const std::vector<int64_t>& start,
                           const std::vector<int64_t>& finish, const std::vector<int64_t>& begin, const std::vector<int64_t>& end) {
  std::vector<int64_t> out(begin.size() * 3, 0);
  ox_sweep(group.size(), group.data(), priority.data(), start.data(), finish.data(), begin.size(), begin.data(), end.data(), 3, 2,
           out.data());
  return out;
}

void sweeping() {
  // Priority 2 covers the middle of priority 1; an instant in the gap holds no time.
  expect<int64_t>("time per priority", sweep({0, 0, 0, 0}, {1, 2, 1, 1}, {0, 2, 14, 16}, {10, 4, 14, 18}, {0}, {20}), {8, 10, 2});
  // Spans are cut at their window; unknown groups and priorities, and spans outside, take no part; a window may be empty.
  const std::vector<int64_t> cut = sweep({0, 1, 7, -1, 0, 1}, {1, 2, 1, 1, 9, 0}, {-5, 90, 0, 0, 0, 0}, {5, 300, 9, 9, 9, 9},
                                         {0, 100, 50}, {10, 200, 50});
  expect<int64_t>("windows", cut, {5, 5, 0, 0, 0, 100, 0, 0, 0});
}

void grouping() {
  const std::vector<int32_t> key{0, 1, 0, -1, 5};
  const std::vector<int64_t> duration{4, 7, 2, 1, 1}, self{1, 7, 2, 1, 1};
  std::vector<int64_t> count(3), total(3), own(3), least(3), most(3);
  ox_group(5, key.data(), nullptr, duration.data(), self.data(), 3, count.data(), total.data(), own.data(), least.data(), most.data());
  expect<int64_t>("count", count, {2, 1, 0});
  expect<int64_t>("total", total, {6, 7, 0});
  expect<int64_t>("self total", own, {3, 7, 0});
  expect<int64_t>("smallest", least, {2, 7, INT64_MAX});
  expect<int64_t>("largest", most, {4, 7, 0});
  const std::vector<int32_t> same(6, 0);
  const std::vector<int64_t> longest(6, kLongest), shortest(6, -kLongest);
  ox_group(6, same.data(), nullptr, longest.data(), shortest.data(), 1, count.data(), total.data(), own.data(), least.data(), most.data());
  expect("sums stop at the end of int64", total[0] == INT64_MAX && own[0] == INT64_MIN);
}

void covering() {
  const std::vector<int64_t> start{0, 5, 5, 20}, finish{10, 8, 12, 20};
  int64_t covered = 0, summed = 0;
  ox_cover(4, start.data(), finish.data(), 2, 30, &covered, &summed);
  expect<int64_t>("covered and summed", {covered, summed}, {10, 18});
  const std::vector<int64_t> early(6, 0), late(6, kLongest);
  ox_cover(6, early.data(), late.data(), 0, kLongest, &covered, &summed);
  expect<int64_t>("sums stop at the end", {covered, summed}, {kLongest, INT64_MAX});
}

void sharing() {
  // Two at once for 5, one nested in the first of them, and one that waits for all of it and longer.
  const std::vector<int64_t> start{0, 1, 5, 0}, finish{10, 3, 15, 20};
  const std::vector<int32_t> parent{-1, 0, -1, -1};
  const std::vector<uint8_t> waits{0, 0, 0, 1};
  std::vector<double> own(4), alone(4), sums(3);
  ox_share(4, start.data(), finish.data(), parent.data(), waits.data(), own.data(), alone.data(), sums.data());
  expect<double>("moments in equal parts, those without work to who waits", own, {5.5, 2, 7.5, 5});
  expect<double>("alone", alone, {3, 2, 5, 0});
  expect<double>("any, one and all that compute", sums, {15, 10, 20});
  ox_share(0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, sums.data());
  expect<double>("nothing shares nothing", sums, {0, 0, 0});
}

}  // namespace

int main() {
  nesting();
  nesting_of_equal_events();
  nesting_of_overlaps();
  nesting_with_a_mask();
  packing();
  spreading();
  partners();
  sweeping();
  grouping();
  covering();
  sharing();
  return outpace_test::finish("core algorithms");
}
