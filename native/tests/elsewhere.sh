#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The core's tests, built by zig for another platform, and run where this machine can: elsewhere.sh PYTHON TARGET [EMULATOR ...]
# PYTHON has ziglang; TARGET as release/wheels.py names it for zig.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 target=$2
shift 2
export PATH=$PATH:/usr/lib/wine WINEDEBUG=-all  # where Debian has wine64
if [ $# -gt 0 ] && ! command -v "$1" > /dev/null; then
  echo "$target: $1 is not on this machine, skipped"
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in algorithms decoding; do
  "$python" -m ziglang c++ -target "$target" -std=c++17 -O3 -g0 -s -Inative/include native/src/*.cc "native/tests/$program.cc" -o "$work/$program.exe"
  "$@" "$work/$program.exe"
done
