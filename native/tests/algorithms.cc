// The core's algorithms on small hand-made columns.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "outpace.h"

namespace {

int failures = 0;

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

void nesting() {
  // An event of 10, in it one of 4 with an instant at its end, an instant at the outer end, a partial overlap, and a second line.
  const std::vector<int64_t> start{0, 2, 6, 10, 12, 15, 0}, duration{10, 4, 0, 0, 6, 6, 5};
  const std::vector<uint64_t> lines{0, 6, 7};
  std::vector<int32_t> parent(7), end(7);
  std::vector<int64_t> self(7);
  ox_nest(2, lines.data(), start.data(), duration.data(), nullptr, 1, parent.data(), end.data(), self.data());
  expect<int32_t>("parent", parent, {-1, 0, 1, 0, -1, -1, -1});
  expect<int32_t>("subtree end", end, {4, 3, 3, 4, 5, 6, 7});
  expect<int64_t>("self", self, {6, 4, 0, 0, 6, 6, 5});
}

void spreading() {
  // Rows 0-2 are a tree, row 3 causes nothing, row 4 (with child 5) is caused by row 2; the second root finds its subtree taken.
  const std::vector<int32_t> end{3, 2, 3, 4, 6, 6}, cause{2}, effect{4}, rows{0, 4}, groups{7, 8};
  std::vector<int32_t> group(6, -1);
  ox_spread(6, end.data(), 1, cause.data(), effect.data(), 2, rows.data(), groups.data(), group.data());
  expect<int32_t>("group", group, {7, 7, 7, -1, 7, 7});
}

void joining() {
  const std::vector<int32_t> cause{1, 2, 3}, effect{10, 11, 12};
  const std::vector<uint64_t> cause_key{5, 6, 5}, effect_key{5, 9, 6};
  uint64_t count = 0;
  ox_pairs* pairs = ox_join(3, cause.data(), cause_key.data(), 3, effect.data(), effect_key.data(), 0, &count);
  std::vector<int32_t> left(count), right(count);
  ox_pairs_take(pairs, left.data(), right.data());
  expect<int32_t>("causes", left, {1, 3, 2});
  expect<int32_t>("effects", right, {10, 10, 12});
}

void sweeping() {
  // Priority 2 covers the middle of priority 1; an instant in the gap holds its priority until the next end of that priority.
  const std::vector<int32_t> group{0, 0, 0, 0};
  const std::vector<uint8_t> priority{1, 2, 1, 1};
  const std::vector<int64_t> start{0, 2, 14, 16}, finish{10, 4, 14, 18}, begin{0}, end{20};
  std::vector<int64_t> out(3, 0);
  ox_sweep(4, group.data(), priority.data(), start.data(), finish.data(), 1, begin.data(), end.data(), 3, 1, out.data());
  expect<int64_t>("time per priority", out, {6, 12, 2});
}

}  // namespace

int main() {
  nesting();
  spreading();
  joining();
  sweeping();
  std::printf("core algorithms: %s\n", failures == 0 ? "as expected" : "WRONG");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
