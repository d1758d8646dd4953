"""What is read of files that a run has written."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

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


def test_attributes_of_hdf5_and_links(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path, link = str(tmp_path / "log.h5"), tmp_path / "best"
    with h5py.File(path, "w") as file:
        file.attrs["val_loss"] = [0.5, 0.25]
        file.create_dataset("w", data=[1.0]).attrs["step"] = 3
    link.symlink_to("ckpt_12", target_is_directory=True)
    found = held_in([path, str(link)])
    assert found[f"{path}/@val_loss"].tolist() == [0.5, 0.25] and found[f"{path}/w@step"] == 3
    assert found[f"{link}<link>"] == "ckpt_12"


def test_what_is_no_part_of_a_saved_model_is_left_out(tmp_path: Path) -> None:
    path = str(tmp_path / "m.zip")
    found = []
    for address, jit, steps in ((7, '"auto"', 1), (9, "true", 4)):
        with zipfile.ZipFile(path, "w") as file:
            text = f'{{"units": 4, "shared_object_id": {address}, "jit_compile": {jit}, "steps_per_execution": {steps}}}'
            file.writestr("config.json", text)
        found.append({name: str(each) for name, each in held_in([path]).items()})
    assert found[0] == found[1] and found[0][f"{path}/config.json<numbers>"] == "[4.]"
