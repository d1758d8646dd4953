# SPDX-License-Identifier: Apache-2.0
"""Patterns of sensitive parts of a text, which reveal whose program, machine or data it is about:
paths, addresses, hosts, users, values of variables and of options.

Texts are names of ops, sentences and lines of a log alike, and nothing marks where a path ends in
them. What looks like a path is matched as a whole, with the blanks and punctuation inside of it:
redacting a word too many is better than revealing a folder.
"""

from __future__ import annotations

import ipaddress
import re

from outpace._lazy import compile_lazily

_DATA = (
    "arrow avro bin bz2 cfg ckpt conf csv dat data db feather gguf gz h5 hdf5 html idx ini ipynb jpe?g jsonl? keras lmdb log lz4 mat mp3 "
    "mp4 msgpack npy npz onnx orc parquet pb pkl png proto pt pth pyw? safetensors sh sqlite tar tfrecords? tgz toml tsv txt wav xml ya?ml "
    "xz zip zst"
)
_CODE = "c cc cpp cu cuh cxx go h hpp js rs so ts"
# File endings of a program and its data: a path that starts with a folder name ends in one of
# them, while a name scope of ops does not
_FILES = "|".join(_DATA.split())
_SOURCE = "|".join((*_CODE.split(), "py"))
_ENDINGS = f"{_FILES}|{_SOURCE}"
_DOMAINS = "com|org|net|edu|gov|mil|ai|cloud|corp|internal|intranet|lan|local|localdomain"
_ROOTS = "home|Users|srv|mnt|media|opt|root|usr|private|Volumes"

_NO = r"\s\"'`<>|/\\"  # characters that no file name contains (in a character class)
_SLASH = r"[/\\]{1,9}"
_LONGEST = 255  # maximum length of a file name; without a limit, a search would be quadratic in the text's length
_PLAIN = rf"[^{_NO},;:()\[\]{{}}]{{1,{_LONGEST}}}"
_WORD = rf"[^{_NO},;:()\[\]{{}}=.]{{1,{_LONGEST}}}"
_FOLDER = rf"(?:[^{_NO}]{{0,{_LONGEST}}}[^{_NO},;:]|{_WORD}(?: {_WORD}){{1,5}})(?={_SLASH})"
_FILE = rf"(?:{_WORD}(?: {_WORD}){{1,5}}\.(?:{_ENDINGS})\b|{_PLAIN})"
_INSIDE = rf"(?:{_SLASH}{_FOLDER})*{_SLASH}(?:{_FILE})?"
_VARIABLE = r"\$\w{1,99}|\$\{\w{1,99}\}|%\w{1,99}%"
_START = rf"(?:~[\w.-]{{0,99}}|[A-Za-z]:|\.\.?|{_VARIABLE})(?=[/\\])"
_DEVICE = r"(?!/\w+:)"  # `/job:worker/device:GPU:0` is a device
_HOST = r"[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,9}"

_PATTERNS = {
    "value": r"(?<![\w-])(?:[A-Z][A-Z0-9_]{2,99}|--[A-Za-z][\w-]{0,99})=(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s,;\"']+)",
    "address": rf"(?<![\w+.-])[A-Za-z][\w+.-]*:(?:\\?/){{2,3}}[^{_NO}][^\s\"'`<>|]*(?<![,;:.)\]}}])|file:/+[^\s\"'`<>|]+",
    "path": "|".join(
        (
            rf"(?<=\")(?:{_START}|{_DEVICE}/|\\\\)[^\"\n]+(?=\")",  # quoted: up to the closing quote
            rf"(?<=')(?:{_START}|{_DEVICE}/|\\\\)[^'\n]+(?=')",
            rf"(?<![\w/\\.)\]>}}+-]){_START}{_INSIDE}",
            rf"(?<![\w/\\.)\]>}}+%-]){_DEVICE}(?:{_SLASH}{_FOLDER}{_INSIDE}|/(?=...){_PLAIN})",
            rf"(?:(?<=[)\]>}}.-])|(?<=-[A-Z]))/(?:{_ROOTS})(?=/){_INSIDE}",  # after characters that can also end a scope of ops
            rf"(?<![\w/\\.)\]>}}+-])(?:{_PLAIN}{_SLASH})+{_PLAIN}\.(?:{_FILES})\b",  # a path that starts with a folder name
        )
    ),
    "login": rf"(?<![\w.+-])[A-Za-z][\w.+-]{{0,63}}@{_HOST}",
    "host": "|".join(
        (
            r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])",
            r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])",
            rf"(?<![\w./@-])[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,9}}\.(?:{_DOMAINS})(?![\w-])",
            rf"(?<![\w./@-])(?=[\w.]{{0,99}}[-.])(?![\w.-]{{1,99}}\.(?:{_SOURCE}):){_HOST}(?=:\d{{4,5}}(?!\d))",
        )
    ),
}

SENSITIVE = compile_lazily("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))
"""Pattern of the sensitive parts of a text; the name of the matched group is the kind of part."""

PATH_ONLY = compile_lazily(r"(?:~?/|[A-Za-z]:[/\\])[^\n\":]*\.\w+(?::\d+)*|[^\n\"':]*\.(?:pyw?|ipynb)")
"""Pattern of a text that consists of one path; the path may contain blanks."""

FILE_EXTENSION = compile_lazily(rf"(?<=.)\.(?:{_ENDINGS})$")
"""Pattern of a file's ending that reveals the kind of file and nothing else."""


def is_host(text: str) -> bool:
    """Whether a text that looks like a host is one. Digits alone are one only as an IP address:
    `2.15.0` is a version, `12:30:45` a time.
    """
    if re.search(r"[g-zG-Z_-]", text) and ":" not in text:
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(letter.isdigit() for letter in text)
