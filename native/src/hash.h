// SPDX-License-Identifier: Apache-2.0
// Hashing of numbers that a file chose: under a secret of this process, so that no file can make them collide.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>

namespace outpace {

struct Secret {
  uint64_t add, multiply;

  Secret() {
    try {
      std::random_device device;
      const auto word = [&] { return uint64_t{device()} << 32 | device(); };
      add = word();
      multiply = word();
    } catch (const std::exception&) {  // no such device in this sandbox: what nobody else knows, if not as well
      add = reinterpret_cast<uintptr_t>(this) * 0x9E3779B97F4A7C15ull;
      multiply = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * 0xC2B2AE3D27D4EB4Full;
    }
    multiply |= 1;
  }
};

inline const Secret secret;

// Every bit of the key reaches every bit of the hash: both halves of the product with a secret number are folded together.
inline uint64_t scramble(uint64_t key) {
  const auto product = static_cast<unsigned __int128>(key ^ secret.add) * secret.multiply;
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
}

struct Scrambled {
  std::size_t operator()(uint64_t key) const { return scramble(key); }
};

}  // namespace outpace
