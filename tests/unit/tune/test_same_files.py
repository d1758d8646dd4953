"""What is read of files that a run has written."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np

from outpace.tune.same.files import held_in, lines_of


def test_texts_by_line_and_the_rest_by_what_it_holds(tmp_path: Path) -> None:
    text, array, archive, object_, other = (str(tmp_path / name) for name in ("a.txt", "b.npy", "c.npz", "d.pkl", "e.bin"))
    Path(text).write_text("one\ntwo\n", encoding="utf-8")
    np.save(array, np.arange(3.0))
    np.savez(archive, w=np.ones(2))
    Path(object_).write_bytes(pickle.dumps({"seen": 16}))
    Path(other).write_bytes(b"\xff\xfe\x00")
    paths = [text, array, archive, object_, other]
    assert lines_of(paths) == {text: ("one", "two"), array: (), archive: (), object_: (), other: ()}
    found = held_in(paths)
    assert set(found) == {array, f"{archive}/w.npy", object_, other}
    assert found[array].tolist() == [0, 1, 2] and found[f"{archive}/w.npy"].tolist() == [1, 1]
    assert found[object_] == {"seen": 16}
    assert str(found[other]).startswith("digest ")


def test_texts_that_are_packed_or_long_by_their_words_and_numbers(tmp_path: Path) -> None:
    packed, long = str(tmp_path / "a.csv.gz"), str(tmp_path / "b.csv")
    with gzip.open(packed, "wt") as file:
        file.write("loss,0.5\nloss,0.25\n")
    Path(long).write_text("loss,0.5\n" * 200_000, encoding="utf-8")
    found = held_in([packed, long])
    assert found[packed] == "loss,#\nloss,#" and found[f"{packed}<numbers>"].tolist() == [0.5, 0.25]
    assert found[f"{long}<numbers>"].shape == (200_000,)


def test_a_file_that_only_begins_like_one_is_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"PK\x03\x04\xff", b"\x93NUMPY\xff", b"\x80\xff", b"\x89HDF\r\n\x1a\n\xff"):
        path.write_bytes(content)
        assert str(held_in([str(path)])[str(path)]).startswith("digest ")
    assert held_in([str(tmp_path / "gone")]) == {}
