"""Stand-ins of texts: what is replaced, what stays, and that no length changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.model.redaction import Redaction


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("/home/ann/proj/train.py:41", ("ann", "proj", "train", "home")),
        ("see /srv/data/ann/q.tfrecord, and ~/notes", ("srv", "data", "ann", "q.tf", "notes")),
        ("/home/ann/my proj/train it.py", ("my proj", "train it")),
        (r"C:\Users\ann\proj\a.bin", ("Users", "ann", "proj", "a.bin")),
        ("gs://ann-bucket/part-1", ("ann", "part")),
        ("research/users/ann/model.py:7\nthird/party.py:9", ("research", "ann", "model", "party")),
        ("/opt/ann/lib/python3.11/site-packages/keras/src/trainer.py", ("ann", "opt")),
    ],
)
def test_paths_in_a_text(text: str, gone: tuple[str, ...]) -> None:
    told = Redaction().redact_text(text)
    assert not [word for word in gone if word in told]
    assert len(told.encode()) == len(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "/device:GPU:0",
        "/host:CPU",
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "jit(step)/jit(main)/transpose(jvp(f))/dot_general",
        "model/dense/MatMul:MatMul",
        "model//dense/Relu",
        "gradient_tape/model/dense/MatMul/MatMul_1",
        "Iterator::Root::Prefetch",
        "$core.py:123 bind",
        "tensorflow/core/kernels/matmul_op.cc",
        "f32[64,264]{1,0}, 3/4 of 1.5 GB/s",
    ],
)
def test_names_of_frameworks_stay(text: str) -> None:
    assert Redaction().redact_text(text) == text


def test_packages_keep_their_place() -> None:
    told = Redaction().redact_text("/opt/ann/lib/python3.11/site-packages/keras/src/trainer.py:9")
    assert told.endswith("/site-packages/keras/src/trainer.py:9") and "ann" not in told


def test_a_name_stands_for_itself_wherever_it_was_met() -> None:
    redaction = Redaction()
    redaction.keep_words({"host"})
    path = redaction.redact_text("/home/ann/proj/train.py")
    assert redaction.redact_text(path) == path  # a stand-in has none
    line = redaction.redact_text("$train.py:41 step of ann, joanna and train_py_L12_map")
    assert line.startswith(f"${path.rpartition('/')[2]}:41 ") and "joanna" in line and "of ann" not in line
    assert "train_py" not in line and line.endswith("_L12_map")
    redaction.redact_name("host")
    assert redaction.redact_text("/host:CPU on host") == "/host:CPU on host"  # a term


def test_a_record() -> None:
    record = {"script": "train.py", "argv": ("--key", "abc"), "stages": [{"file": "train.py", "text": "read('b/c', n=4)"}]}
    told = Redaction().redact_record(record)
    assert "train" not in str(told) and "abc" not in str(told) and "b/c" not in str(told)
    assert told["stages"][0]["file"] == told["script"] and "n=4)" in told["stages"][0]["text"]


def test_messages_of_protobuf() -> None:
    inner = encode_bytes(3, "/home/ann/proj/train.py") + encode_integer(4, 300)
    data = encode_bytes(1, b"\xff\xfe\x00") + encode_bytes(7, inner) + encode_integer(9, 5)
    told = Redaction().redact_message(data)
    assert len(told) == len(data) and b"ann" not in told and told.endswith(encode_integer(4, 300) + encode_integer(9, 5))
    assert b"ann" not in Redaction().redact_message(data + b"\x0a\x50cut")  # a damaged one, up to the damage


@given(st.text(alphabet=st.sampled_from("/\\.:~ aäb1漢-_'\"\n")), st.binary(max_size=60))
def test_no_length_changes(text: str, data: bytes) -> None:
    redaction = Redaction()
    redaction.redact_name("äb1")
    assert len(redaction.redact_text(text).encode()) == len(text.encode())
    assert len(redaction.redact_message(data)) == len(data)
    assert len(redaction.redact_bytes(data)) == len(data)
