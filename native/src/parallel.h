// SPDX-License-Identifier: Apache-2.0
// A tiny parallel-for: enough for "one line is one task".
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace outpace {

// Run work(i) for i in [0, count) on up to `threads` threads, heaviest first so that the last one to finish is a small one. Each thread has a copy
// of `work`: what that holds by value is room of the thread's own. Where work throws, no more is begun, and the first exception goes on to the
// caller. Threads that there is no room for are done without.
template <class Weight, class Work>
void parallel(uint64_t count, int threads, Weight weight, Work work) {
  const int workers = static_cast<int>(std::min<uint64_t>(count, threads < 1 ? 1 : static_cast<uint64_t>(threads)));
  if (workers <= 1) {
    for (uint64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return weight(a) > weight(b); });
  std::atomic<uint64_t> next{0};
  std::exception_ptr failed;
  std::mutex failing;
  auto run = [&, work]() mutable noexcept {
    try {
      for (uint64_t i; (i = next++) < count;) work(order[i]);
    } catch (...) {
      const std::lock_guard<std::mutex> hold(failing);
      if (!failed) failed = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(workers));
  try {
    for (int i = 1; i < workers; ++i) pool.emplace_back(run);
  } catch (const std::exception&) {  // std::system_error, or no memory for one
  }
  run();
  for (auto& thread : pool) thread.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace outpace
