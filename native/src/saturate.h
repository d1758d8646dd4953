// SPDX-License-Identifier: Apache-2.0
// Sums of times that stop at the ends of int64: a damaged file may claim durations whose sum is no number any more.
#pragma once

#include <cstdint>

namespace outpace {

inline int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

inline int64_t subtract(int64_t a, int64_t b) {
  int64_t rest;
  return __builtin_sub_overflow(a, b, &rest) ? (b < 0 ? INT64_MAX : INT64_MIN) : rest;
}

}  // namespace outpace
