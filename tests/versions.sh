#!/bin/bash
# The suite on other supported versions, each in an environment of its own, against the wheel in dist/.
#   tests/versions.sh [PYTHON:TENSORFLOW ...]
# A Python that this machine does not have is named and skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.10:2.16.2 3.12:2.18.1 3.13:2.21.0
wheel=$(ls dist/*.whl)
failed=""
for version; do
  python=${version%:*} tensorflow=${version#*:} home=.venv-${version/:/-}
  interpreter=$(ls -d "$HOME"/.pyenv/versions/"$python".*/bin/python 2>/dev/null | tail -1 || true)
  interpreter=${interpreter:-$(command -v "python$python" || true)}
  if ! "${interpreter:-false}" -c "" 2>/dev/null; then
    echo "Python $python: not on this machine, skipped"
    continue
  fi
  [ -d "$home" ] || "$interpreter" -m venv "$home"
  "$home/bin/python" -m pip install -q --disable-pip-version-check "tensorflow-cpu==$tensorflow" "$wheel[tensorflow,dev]"
  "$home/bin/python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  echo "Python $python, TensorFlow $tensorflow:"
  "$home/bin/python" -m pytest -q tests/unit/frameworks && "$home/bin/python" -m pytest -q || failed="$failed $version"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
