#!/usr/bin/env bash
# Compare with the reference tools of .venv-bench/xprof (`make bench` installs them): bench/run.sh [STEPS] [tools].
# With `tools`, every tool against XProf's (bench/tools.py), instead of the report against overviews (bench/compare.py).
# Outpace is measured as a user installs it, without development tools.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-670}
work=.venv-bench
quiet=(-q --disable-pip-version-check)
[ -d $work/outpace ] || python3 -m venv $work/outpace
$work/outpace/bin/python -m pip install "${quiet[@]}" --force-reinstall --no-deps dist/*.whl
$work/outpace/bin/python -m pip install "${quiet[@]}" dist/*.whl
[ -d $work/profile-"$steps" ] || .venv/bin/python bench/make_big_profile.py "$steps" $work/profile-"$steps"
profile=$(ls $work/profile-"$steps"/plugins/profile/*/*.xplane.pb)
if [ "${2:-}" = tools ]; then
  exec .venv/bin/python bench/tools.py "$profile" --outpace-python $work/outpace/bin/python --xprof-python $work/xprof/bin/python \
    --json $work/tools-"$steps".json
fi
.venv/bin/python bench/compare.py "$profile" \
  --outpace-python $work/outpace/bin/python --xprof-python $work/xprof/bin/python --xprof-rs $work/xprof/bin/xprof-rs \
  --json $work/results-"$steps".json
