#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the core with AddressSanitizer and UndefinedBehaviorSanitizer, test it, and fuzz it: run.sh [MUTANTS [SEED]]
# A fault leaves the bytes in finding*.pb: what is mended is kept in native/tests/findings, as small as it gets.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Inative/include -DOX_TASK_SIZE=1 -DOX_STRETCH=3 -pthread)
printf '%s\0' native/src/*.cc native/tests/*.cc |
  xargs -0 -P "$(nproc)" -I{} bash -c 'g++ $0 -c "$1" -o "$2/$(basename "$1" .cc).o"' "${flags[*]}" {} "$work"
mkdir "$work/programs"
for program in algorithms decoding fuzz; do mv "$work/$program.o" "$work/programs"; done
for program in algorithms decoding fuzz; do
  g++ "${flags[@]}" "$work"/*.o "$work/programs/$program.o" -o "$work/$program" $([ $program = fuzz ] && echo -Wl,--wrap=write)
done
"$work/algorithms"
"$work/decoding"
for name in jax_loop unicode_names memory_heavy jax_rocm_gemm multi_worker_strategy predict_inference; do
  for file in tests/data/profiles/$name/*.gz; do gunzip -c "$file" > "$work/$name-$(basename "$file" .gz)"; done
done
ASAN_OPTIONS=handle_abort=1 "$work/fuzz" "${1:-2000}" "${2:-1}" native/tests/findings/*.pb "$work"/*.pb
