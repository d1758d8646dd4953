"""The facade, where hosts cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from outpace import api
from outpace.hosts import host_reader
from outpace.model import NotFoundError, OutputError, ProfileError
from outpace.trace import open_trace as really
from tests.support import profile_path


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, *hosts: str) -> None:
    """Let the files of these hosts fail when they are opened."""

    def open_trace(path: Any, host: str, *limits: Any) -> Any:
        if host in hosts:
            raise error
        return really(path, host, *limits)

    monkeypatch.setattr(host_reader, "open_trace", open_trace)


HOSTS = ("localhost_7010", "localhost_7011", "localhost_7012")


@pytest.mark.parametrize("error", [NotFoundError("x cannot be read: Permission denied."), ProfileError("x is empty.")])
@pytest.mark.parametrize("host", [HOSTS[0], HOSTS[-1]])
def test_a_host_that_cannot_be_read_loses_no_other(host: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, error, host)
    with api.open(profile_path("multi_host")) as profile:
        assert [t.host for t in profile.run.hosts] == [each for each in HOSTS if each != host]
        assert f"{host} is left out: {error}" in profile.warnings


def test_where_none_can_be_read_the_last_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, NotFoundError("x cannot be read: Permission denied."), *HOSTS)
    with pytest.raises(NotFoundError, match="Permission denied"):
        api.open(profile_path("multi_host"))


def test_a_full_disk_is_no_fault_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OutputError("There is no room in /tmp."), HOSTS[1])
    with pytest.raises(OutputError):
        api.open(profile_path("multi_host"))
