"""What in a text tells whose it is, wherever in it and however it is written; and what only looks
like it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.model.redaction import Redaction
from outpace.trace import DIALECT_WORDS, open_trace

PROFILES = Path(__file__).parents[2] / "data" / "profiles"


@pytest.mark.parametrize(
    "text",
    [
        "open /data/My sekret/data.csv for read",
        "read '/home/ann/Docs of sekret/a b.csv' done",
        r"read C:\Users\Bob Smith\sekret files\a.bin",
        r"open('C:\\Users\\bob\\sekret\\a.bin')",
        r"open C:\sekret.bin now",
        r"\\sekret\share\x read",
        "open /sekret now",
        "open /home//sekret/x",
        "open file:///srv/sekret/x.csv",
        "GET https://me:sekret@db.example/x",
        "GET https://me:pw@sekret.example:443/x",
        "GET https://db.example:8080/sekret/x",
        "GET https://db.example/x?a=1,sekret",
        "mail to sekret@mailbox.example please",
        "ssh root@sekret done",
        "copy sekret@node7:/data/x/y",
        "open ~sekret/x/y.csv",
        "open $HOME/sekret/y.csv",
        "open ${DATA}/sekret/y.csv",
        r"open %USERPROFILE%\sekret\y.csv",
        "open ../sekret/y.csv",
        "read sekret/part-1.tfrecord",
        "cc -I/opt/sekret/include x",
        "open /data/run(1)/sekret/x.csv",
        "open /data/run,1/sekret/x.csv",
        "open /data/[1]/sekret/x.csv",
        "open /data/exp:1/sekret/x.csv",
        'open "/data/O\'Brien/sekret/x.csv"',
        r'{"path": "\/data\/sekret\/x.csv"}',
        "open /usr/lib/python3.11/site-packages/../../../home/ann/sekret/x.csv",
        "->/srv/sekret/x.csv",
        "f()/srv/sekret/x.csv",
        "connect sekret.cluster.internal ok",
        "connect sekret-3:2222 ok",
        "WANDB_API_KEY=sekret run",
        "env: AWS_SECRET_ACCESS_KEY='a/b+sekret'",
        "python train.py --key=sekret",
        "see /srv/x.sekret/y",
        "open /home/мюллер/sekret/данные.csv",
    ],
)
def test_what_tells_has_a_stand_in(text: str) -> None:
    told = Redaction().redact_text(text)
    assert "sekret" not in told
    assert len(told.encode()) == len(text.encode())


@pytest.mark.parametrize("address", ["10.77.66.55", "10.77.66.55:8471", "2001:db8::77:66", "[2001:db8::77:66]:8470", "fe80::1"])
def test_addresses_of_machines_have_stand_ins(address: str) -> None:
    told = Redaction().redact_text(f"connect {address} ok")
    assert "77" not in told and "fe80" not in told and told.startswith("connect ") and told.endswith(" ok")


@pytest.mark.parametrize(
    "text",
    [
        "12:30:45",
        "cuDNN 9.1.0",
        "std::add::abs",
        "matmul_op.cc:1234",
        "a-b.cc:12345",
        "dense/kernel:0",
        "STEPS=100",
        "0000:3b:00.0",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert Redaction().redact_text(text) == text


def test_names_in_real_profiles_stay_but_for_those_of_files() -> None:
    redaction = Redaction()
    redaction.keep_words(DIALECT_WORDS)
    for path in sorted(PROFILES.glob("*/*.xplane.pb*")):
        trace = open_trace(str(path), "host")
        for name in {*trace.names, *trace.lines.names, *trace.stat_names}:
            assert redaction.redact_text(name) == name or ".py" in name


def test_a_host_is_known_by_its_first_part_and_in_capitals() -> None:
    redaction = Redaction()
    redaction.redact_host("Falcon-07.corp.example")
    told = redaction.redact_text("falcon-07 waits for FALCON-07.CORP.EXAMPLE, Falcon-07 too")
    assert "07" not in told and told.endswith(" too")


def test_who_is_called_like_a_word_of_a_framework_changes_no_name() -> None:
    redaction = Redaction()
    redaction.keep_words({"step_num", "Iterator"})
    for host in ("step", "Iterator"):
        assert redaction.redact_name(host).startswith("x")
    assert redaction.redact_text("Iterator::Root step_num") == "Iterator::Root step_num"


def test_lines_of_source_are_told_without_literals_and_comments() -> None:
    line = "ds.map(f'it\\'s sekret {x}', \"it\\\"s sekret\", n=4)  # ask sekret about it"
    told = Redaction().redact_record({"stages": [{"text": line}]})["stages"][0]["text"]
    assert "sekret" not in told and told.startswith("ds.map(f'") and ", n=4)" in told
    assert "sekret" not in str(Redaction().redact_record({"text": "print('sekret goes on"}))


def test_arguments_that_are_no_plain_words_are_known_everywhere() -> None:
    redaction = Redaction()
    redaction.redact_record({"argv": ["--name=moonshot-v3", "adam", "--data", "/srv/patients/x"]})
    told = redaction.redact_text("epoch of moonshot-v3 with adam")
    assert "moonshot" not in told and told.endswith(" with adam")


def test_short_lists_of_numbers_in_a_message_are_no_texts() -> None:
    from outpace.model.protobuf_wire import encode_bytes

    numbers = encode_bytes(3, b"/012345") + encode_bytes(3, b"\x83/\x80\x80/.\xc0?")
    assert Redaction().redact_message(numbers) == numbers
    assert b"a.py" not in Redaction().redact_message(encode_bytes(3, "a.py"))
