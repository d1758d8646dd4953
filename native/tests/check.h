// SPDX-License-Identifier: Apache-2.0
// Comparing what came with what was expected; every difference is printed and counted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace outpace_test {

inline int failures = 0;

template <class T>
void expect(const char* what, const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got == wanted) return;
  ++failures;
  std::fprintf(stderr, "%s: got", what);
  for (const T& v : got) std::fprintf(stderr, " %lld", static_cast<long long>(v));
  std::fprintf(stderr, ", wanted");
  for (const T& v : wanted) std::fprintf(stderr, " %lld", static_cast<long long>(v));
  std::fprintf(stderr, "\n");
}

inline void expect(const char* what, bool holds) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "%s: does not hold\n", what);
}

// The exit status of a test program.
inline int finish(const char* program) {
  std::printf("%s: %s\n", program, failures == 0 ? "as expected" : "WRONG");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace outpace_test
