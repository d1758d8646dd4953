#!/usr/bin/env bash
# A Python for arm64 that this machine can run, with a wheel and what it depends on: release/arm64.sh FOLDER WHEEL; FOLDER/python is it then.
# Debian 12's own packages under qemu-user, on Debian 12; nothing of the system is changed.
set -euo pipefail
home=$(realpath -m "$1") wheel=$(realpath "$2")
command -v qemu-aarch64 > /dev/null || { echo "qemu-aarch64 is not on this machine (apt install qemu-user): nothing of arm64 is run"; exit 0; }
rm -rf "$home" && mkdir -p "$home"/{debs,state/lists/partial,cache/archives/partial,root,site} && touch "$home/state/status"
apt=(apt-get -qq -o APT::Sandbox::User=root -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$home/state"
  -o Dir::State::status="$home/state/status" -o Dir::Cache="$home/cache")
"${apt[@]}" update
cd "$home/debs"
"${apt[@]}" download python3.11-minimal libpython3.11-{minimal,stdlib} libc6 libgcc-s1 libstdc++6 libexpat1 zlib1g libffi8 libssl3 libbz2-1.0 \
  liblzma5 libuuid1 libcrypt1
for package in *.deb; do dpkg -x "$package" "$home/root"; done
platforms=(--platform=manylinux2014_aarch64 --platform=manylinux_2_{17,27,28}_aarch64)
python3 -m pip install -q --only-binary=:all: --implementation cp --python-version 3.11 "${platforms[@]}" --target "$home/site" "$wheel"
printf '#!/bin/sh\nPYTHONPATH=%s exec qemu-aarch64 -L %s %s "$@"\n' "$home/site" "$home/root" "$home/root/usr/bin/python3.11" > "$home/python"
chmod +x "$home/python"
