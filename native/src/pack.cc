// SPDX-License-Identifier: Apache-2.0
// Whole numbers in few bytes each: a column of events is held so, and unpacked where somebody asks for rows.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "guard.h"
#include "outpace.h"
#include "parallel.h"

namespace {

constexpr uint64_t kBlock = 256;         // numbers that share a base
constexpr uint64_t kTask = kBlock << 8;  // numbers that one thread takes at a time
constexpr int64_t kUnit = 1000;          // most profilers count nanoseconds, in picoseconds

// Run work(begin, end) over [0, count) in whole blocks.
template <class Work>
void in_blocks(uint64_t count, int threads, Work work) {
  outpace::parallel((count + kTask - 1) / kTask, threads, [](uint64_t) { return 1; },
                    [&](uint64_t i) { work(i * kTask, std::min(count, (i + 1) * kTask)); });
}

// Of how far a number is above its base, whether so many bytes hold it: all bits set mean that they do not.
template <class Small>
constexpr bool fits(uint64_t above) {
  return above < std::numeric_limits<Small>::max();
}

// How far a number is above its base; a unit that is known here is no division.
template <int64_t unit>
uint64_t above(int64_t value, int64_t base) {
  return (static_cast<uint64_t>(value) - static_cast<uint64_t>(base)) / static_cast<uint64_t>(unit);
}

template <class Work>
void with_unit(int64_t unit, Work work) {
  if (unit == kUnit) work(std::integral_constant<int64_t, kUnit>{});
  else work(std::integral_constant<int64_t, 1>{});
}

template <class Value>
bool divided(const Value* value, uint64_t count, int threads) {
  std::atomic<bool> all{true};
  in_blocks(count, threads, [&](uint64_t begin, uint64_t end) {
    bool mine = all.load(std::memory_order_relaxed);
    for (uint64_t i = begin; mine && i < end; ++i) mine = value[i] % kUnit == 0;
    if (!mine) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

template <class Value>
void plan(const Value* value, uint64_t count, int threads, int64_t* base, int64_t* unit, uint64_t* aside) {
  *unit = divided(value, count, threads) ? kUnit : 1;
  std::array<std::atomic<uint64_t>, 3> total{};
  with_unit(*unit, [&](auto known) {
    in_blocks(count, threads, [&](uint64_t begin, uint64_t end) {
      std::array<uint64_t, 3> found{};
      for (; begin < end; begin += kBlock) {
        const uint64_t last = std::min(begin + kBlock, end);
        const int64_t least = *std::min_element(value + begin, value + last);
        base[begin / kBlock] = least;
        for (uint64_t i = begin; i < last; ++i) {
          const uint64_t more = above<known.value>(value[i], least);
          found[0] += !fits<uint8_t>(more);
          found[1] += !fits<uint16_t>(more);
          found[2] += !fits<uint32_t>(more);
        }
      }
      for (size_t w = 0; w < total.size(); ++w) total[w] += found[w];
    });
  });
  for (size_t w = 0; w < total.size(); ++w) aside[w] = total[w];
}

template <class Value, class Small>
void pack(const Value* value, uint64_t count, int threads, const int64_t* base, int64_t unit, Small* small) {
  with_unit(unit, [&](auto known) {
    in_blocks(count, threads, [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) {
        const uint64_t more = above<known.value>(value[i], base[i / kBlock]);
        small[i] = fits<Small>(more) ? static_cast<Small>(more) : std::numeric_limits<Small>::max();
      }
    });
  });
}

[[gnu::cold, gnu::noinline]] int64_t aside(const ox_packed& packed, uint64_t row) {
  const int64_t* end = packed.aside_row + packed.asides;
  const int64_t* at = std::lower_bound(packed.aside_row, end, static_cast<int64_t>(row));
  if (at == end || *at != static_cast<int64_t>(row)) throw std::invalid_argument("no number stands aside for this row");
  return packed.aside[at - packed.aside_row];
}

template <class Small, class Value>
Value whole(const ox_packed& packed, uint64_t row, Small more) {
  if (more == std::numeric_limits<Small>::max()) return static_cast<Value>(aside(packed, row));
  return static_cast<Value>(packed.base[row / kBlock] + packed.unit * static_cast<int64_t>(more));
}

template <class Small, class Value>
void unpack_from(const ox_packed& packed, uint64_t begin, uint64_t rows, Value* value) {
  const auto* small = static_cast<const Small*>(packed.small);
  const auto unit = static_cast<uint32_t>(packed.unit);
  for (uint64_t row = begin, end = begin + rows; row < end;) {
    const uint64_t last = std::min((row / kBlock + 1) * kBlock, end);
    const auto base = static_cast<uint64_t>(packed.base[row / kBlock]);
    for (; row < last; ++row) value[row - begin] = static_cast<Value>(base + uint64_t{small[row]} * unit);
  }
  const int64_t* stop = packed.aside_row + packed.asides;
  const int64_t* at = std::lower_bound(packed.aside_row, stop, static_cast<int64_t>(begin));
  for (; at != stop && static_cast<uint64_t>(*at) - begin < rows; ++at) {
    value[static_cast<uint64_t>(*at) - begin] = static_cast<Value>(packed.aside[at - packed.aside_row]);
  }
}

template <class Small, class Value, class Row>
void unpack_at(const ox_packed& packed, uint64_t rows, const Row* row, Value* value) {
  const auto* small = static_cast<const Small*>(packed.small);
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t at = static_cast<uint64_t>(int64_t{row[i]}) + (row[i] < 0 ? packed.count : 0);
    if (at >= packed.count) outpace::refuse(OX_FAILED);
    value[i] = whole<Small, Value>(packed, at, small[at]);
  }
}

// The first of the rows [begin, end), whose numbers are sorted, that is not before `wanted`, or (`after`) behind it.
template <class Small>
uint64_t bisect(const ox_packed& packed, uint64_t begin, uint64_t end, int64_t wanted, bool after) {
  const auto* small = static_cast<const Small*>(packed.small);
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    const int64_t found = whole<Small, int64_t>(packed, middle, small[middle]);
    if (found < wanted || (after && found == wanted)) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

template <class Work>
void with_small(uint32_t width, Work work) {
  if (width == 1) work(uint8_t{});
  else if (width == 2) work(uint16_t{});
  else if (width == 4) work(uint32_t{});
  else outpace::refuse(OX_FAILED);
}

// Numbers are int32 or int64, by their width.
template <class Pointer, class Work>
void with_whole(Pointer* value, uint32_t width, Work work) {
  using Four = std::conditional_t<std::is_const_v<Pointer>, const int32_t, int32_t>;
  using Eight = std::conditional_t<std::is_const_v<Pointer>, const int64_t, int64_t>;
  if (width == 4) work(static_cast<Four*>(value));
  else if (width == 8) work(static_cast<Eight*>(value));
  else outpace::refuse(OX_FAILED);
}

}  // namespace

extern "C" {

int32_t ox_pack_plan(uint64_t count, const void* value, uint32_t value_width, int32_t threads, int64_t* base, int64_t* unit, uint64_t* aside) {
  return outpace::guarded([&] { with_whole(value, value_width, [&](const auto* whole) { plan(whole, count, threads, base, unit, aside); }); });
}

int32_t ox_pack(uint64_t count, const void* value, uint32_t value_width, int32_t threads, const int64_t* base, int64_t unit, uint32_t width,
                void* small) {
  return outpace::guarded([&] {
    with_whole(value, value_width, [&](const auto* whole) {
      with_small(width, [&](auto kind) { pack(whole, count, threads, base, unit, static_cast<decltype(kind)*>(small)); });
    });
  });
}

int32_t ox_unpack(const ox_packed* packed, uint64_t rows, const void* row, uint32_t row_width, uint64_t begin, void* value,
                  uint32_t value_width) {
  return outpace::guarded([&] {
    if (row == nullptr && (begin > packed->count || rows > packed->count - begin)) outpace::refuse(OX_FAILED);
    with_small(packed->width, [&](auto kind) {
      using Small = decltype(kind);
      with_whole(value, value_width, [&](auto* out) {
        if (row == nullptr) return unpack_from<Small>(*packed, begin, rows, out);
        with_whole(row, row_width, [&](const auto* at) { unpack_at<Small>(*packed, rows, at, out); });
      });
    });
  });
}

int32_t ox_search(const ox_packed* packed, uint64_t begin, uint64_t end, uint64_t count, const int64_t* wanted, int32_t after, int64_t* row) {
  return outpace::guarded([&] {
    if (begin > end || end > packed->count) outpace::refuse(OX_FAILED);
    with_small(packed->width, [&](auto kind) {
      for (uint64_t i = 0; i < count; ++i) {
        row[i] = static_cast<int64_t>(bisect<decltype(kind)>(*packed, begin, end, wanted[i], after != 0));
      }
    });
  });
}

}  // extern "C"
