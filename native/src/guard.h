// SPDX-License-Identifier: Apache-2.0
// The wall between C++ and C: whatever is thrown becomes a status.
#pragma once

#include <new>
#include <stdexcept>

#include "outpace.h"

namespace outpace {

// What the file itself does wrong, as a status.
struct Refused {
  int32_t status;
};

// Out of the way: the loops that call this run over every byte.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(int32_t status) { throw Refused{status}; }

template <class Work>
int32_t guarded(Work work) noexcept {
  try {
    work();
    return OX_DONE;
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const std::bad_alloc&) {
    return OX_NO_MEMORY;
  } catch (const std::length_error&) {  // more than a container can ever hold
    return OX_NO_MEMORY;
  } catch (...) {
    return OX_FAILED;
  }
}

}  // namespace outpace
