"""The profiler service's messages, addresses and times, without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from outpace.capture.remote.addresses import Address, parse_address, read_addresses, read_cluster_addresses
from outpace.capture.remote.options import RemoteOptions, parse_seconds
from outpace.capture.remote.result import HostOutcome, RemoteResult
from outpace.capture.remote.wire import ProfileRequest, ProfileResponse, has_events
from outpace.model import CaptureError, NotFoundError, UsageError
from outpace.model.errors import PartialCaptureError
from outpace.model.protobuf_wire import encode_bytes, encode_integer, iter_fields

EVENT = encode_bytes(4, encode_integer(1, 3))
PROFILE = encode_bytes(1, encode_bytes(2, "/host:CPU") + encode_bytes(3, encode_bytes(2, "main") + EVENT)) + encode_bytes(
    4, "machine"
)
NO_EVENTS = encode_bytes(1, encode_bytes(2, "Task Environment") + encode_bytes(3, encode_bytes(2, "main"))) + encode_bytes(
    4, "machine"
)


def test_a_request_survives_its_bytes() -> None:
    request = ProfileRequest(2_000, 3, 1, 0, "/logs/ü", "run", "10.0.0.2_6009", False, 1_700_000_000_000_000_000)
    assert ProfileRequest.decode(request.encode()) == request


def test_a_request_of_a_client_that_sets_no_levels_means_the_defaults() -> None:
    """TensorFlow marks options that were set with a version, and ignores levels without it."""
    request = ProfileRequest.decode(encode_integer(1, 500) + encode_bytes(4, encode_integer(2, 3)))
    assert (request.duration_ms, request.host_level, request.python_level, request.device_level) == (500, 2, 0, 1)
    assert not request.emit


@pytest.mark.parametrize("emit", [True, False])
def test_a_response_survives_its_bytes(emit: bool) -> None:
    response = ProfileResponse.decode(ProfileResponse(PROFILE, empty=True).encode(emit))
    assert response.xspace == PROFILE
    assert response.empty


def test_a_response_of_a_server_that_writes_to_its_disk_holds_no_profile() -> None:
    assert ProfileResponse.decode(b"") == ProfileResponse(None)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x42\x05abc",
        b"\x0b",
        b"\xff" * 12,
        b"\x09\x00",
        encode_integer(8, 1),
        encode_bytes(6, encode_bytes(2, "x") + b"\x07"),
    ],
)
def test_damaged_bytes_are_no_response(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"byte|bytes|number"):
        ProfileResponse.decode(data)


def test_numbers_where_a_request_has_text_are_refused() -> None:
    with pytest.raises(ValueError, match="bytes were expected"):
        ProfileRequest.decode(encode_integer(6, 7))
    with pytest.raises(ValueError, match="number was expected"):
        ProfileRequest.decode(encode_bytes(1, "two"))


def test_fields_of_every_kind_are_stepped_over() -> None:
    data = encode_integer(1, 300) + b"\x11" + b"\0" * 8 + b"\x1d" + b"\0" * 4 + encode_bytes(4, "end")
    assert [field for field, _ in iter_fields(data)] == [1, 2, 3, 4]


def test_events_are_looked_for_in_lines() -> None:
    assert has_events(PROFILE)
    assert not has_events(NO_EVENTS)
    assert has_events(NO_EVENTS + PROFILE)
    assert not has_events(b"")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.2:8466", "10.0.0.2", 8466),
        ("grpc://10.0.0.2:8466/", "10.0.0.2", 8466),
        (" worker-0.job.svc ", "worker-0.job.svc", 6009),
        ("[::1]:7000", "::1", 7000),
        ("[fe80::1%eth0]", "fe80::1%eth0", 6009),
    ],
)
def test_an_address(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert parse_address(str(parse_address(text))) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    ["a:", ":1", "a:0", "a:65536", "a:b", "a:-1", "a b:1", "[::1", "[::1]1", "http://a:1", "a:²", "[]:1", "-a", "a/b:1"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_address(text)


def test_an_ipv6_address_without_brackets_is_not_guessed() -> None:
    with pytest.raises(UsageError, match="in brackets"):
        parse_address("::1")


def test_a_profile_is_called_after_the_address() -> None:
    assert parse_address("worker-0.job:7").file_stem == "worker-0.job_7"
    assert parse_address("[fe80::1%eth0]:7").file_stem == "fe80__1_eth0_7"


def test_repeated_addresses_are_taken_once_and_told() -> None:
    addresses = read_addresses(["a:1,b", "grpc://a:1, b:6009", "c:2,"])
    assert [str(a) for a in addresses.addresses] == ["a:1", "b:6009", "c:2"]
    assert [str(a) for a in addresses.duplicates] == ["a:1", "b:6009"]


def test_addresses_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("# the cluster\na:1  # first\n\n b \n[::1]:3, c:4\n")
    found = read_addresses([f"@{tmp_path / 'workers'}", "d:5"], port=9).addresses
    assert [str(a) for a in found] == ["a:1", "b:9", "[::1]:3", "c:4", "d:5"]


def test_a_missing_or_empty_list_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read: No such file"):
        read_addresses(f"@{tmp_path / 'none'}")
    (tmp_path / "empty").write_text("# nothing\n")
    nothing: tuple[str | list[str], ...] = (f"@{tmp_path / 'empty'}", "", " , ", [])
    for given in nothing:
        with pytest.raises(UsageError, match="No address is given"):
            read_addresses(given)


def test_the_cluster_of_tf_config_keeps_its_training_hosts_and_gets_the_profilers_port() -> None:
    cluster = {"worker": ["w0:2222", "w1:2222"], "chief": ["c:2222"], "ps": ["p:2222"], "evaluator": ["e:2222"]}
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})
    found = read_cluster_addresses({"TF_CONFIG": config}, 6010).addresses
    assert [str(a) for a in found] == ["c:6010", "w0:6010", "w1:6010"]


def test_workers_of_one_machine_have_one_profiler_port_there() -> None:
    addresses = read_cluster_addresses({"TF_CONFIG": json.dumps({"cluster": {"worker": ["h:1", "h:2"]}})})
    assert [str(a) for a in addresses.addresses] == [str(a) for a in addresses.duplicates] == ["h:6009"]


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[]", '{"cluster": 3}', '{"cluster": {"ps": ["p:1"]}}', '{"cluster": {"worker": 1}}']
)
def test_a_tf_config_without_workers_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="TF_CONFIG"):
        read_cluster_addresses({"TF_CONFIG": text})


@pytest.mark.parametrize(
    ("text", "value"),
    [("2s", 2.0), ("500ms", 0.5), ("1.5m", 90.0), (" 2 ", 2.0), (".5 s", 0.5), ("1h", 3600.0), ("3min", 180.0)],
)
def test_a_time(text: str, value: float) -> None:
    assert parse_seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "s", "2 seconds", "-1s", "1e3", "nan", "2s2s", "٢s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RemoteOptions(duration=0), "0 seconds cannot be captured"),
        (RemoteOptions(duration=float("nan")), "nan seconds"),
        (RemoteOptions(duration=1e9), "1e.09 seconds"),
        (RemoteOptions(delay=-1), "delay"),
        (RemoteOptions(timeout=0), "timeout"),
        (RemoteOptions(retries=-1), "retries"),
        (RemoteOptions(host_level=4), "host_level must be from 0 to 3"),
        (RemoteOptions(python_level=2), "python_level must be from 0 to 1"),
    ],
)
def test_impossible_options_are_said(options: RemoteOptions, words: str) -> None:
    assert RemoteOptions().find_problem() is None
    assert re.search(words, options.find_problem() or "")


def test_a_result_says_what_is_missing() -> None:
    saved, lost = HostOutcome("a:1", "a_1", bytes=9), HostOutcome("b:1", "b_1", "it hangs")
    assert RemoteResult("run", (saved,)).error() is None
    some = RemoteResult("run", (saved, lost)).error()
    assert isinstance(some, PartialCaptureError)
    assert some.exit_code == 7
    assert str(some) == "1 of 2 workers is missing from run. b:1: it hangs."
    none = RemoteResult(None, (lost,)).error()
    assert type(none) is CaptureError
    assert str(none) == "No profile was captured. b:1: it hangs."


def test_what_came_of_a_worker_is_said_in_one_place() -> None:
    lost, again = HostOutcome("b:1", "b_1", "it hangs"), HostOutcome("a:1", "a_1", attempts=2, note="no device")
    assert (lost.state, lost.remark) == ("missing", "it hangs")
    assert (again.state, again.remark) == ("saved", "at attempt 2; no device")
    assert HostOutcome("a:1", "a_1").remark == ""
