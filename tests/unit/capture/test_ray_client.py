"""A Ray client server starts a process for each client; where that died, a second one
is asked for.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from outpace.capture.remote import ray_
from outpace.model.errors import CaptureError

DIED = "Traceback ...\nRuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for detailed logs."


@pytest.fixture
def place() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


class Ray(SimpleNamespace):
    """Ray's `init`, which raises what it is given, one after the other."""

    exceptions = SimpleNamespace(RayError=KeyError)

    def init(self, address: str, **_: object) -> None:
        self.addresses.append(address)
        if self.errors:
            raise ConnectionAbortedError(self.errors.pop(0))  # as Ray does

    def shutdown(self) -> None:
        self.addresses.append("shutdown")


def test_a_server_that_died_at_its_start_is_asked_once_more(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(addresses=[], errors=[DIED])
    monkeypatch.setattr(ray_, "load_ray", lambda: ray)
    with ray_.connect_ray(place) as found:
        assert found is ray
    assert ray.addresses == [f"ray://{place}"] * 2 + ["shutdown"]


@pytest.mark.parametrize("errors", [[DIED, DIED], [DIED, "another"]], ids=["died twice", "and then another"])
def test_what_stays_is_said(errors: list[str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray(addresses=[], errors=list(errors))
    monkeypatch.setattr(ray_, "load_ray", lambda: ray)
    with (
        pytest.raises(CaptureError, match=errors[-1].splitlines()[-1].removeprefix("RuntimeError: ").rstrip(".")),
        ray_.connect_ray(place),
    ):
        pass
    assert len(ray.addresses) == len(errors)
