"""`--redact`: whose program, machine and data it was is in no output; all numbers stay."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import outpace
from outpace.model import Page
from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.testing import Inline, SpaceBuilder
from tests.integration.programs import needs_tensorflow

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
USER, HOST, PROJECT, DATA = "mallory", "falcon-gpu-07", "moonshot", "patients"
ADDRESSES = ("corp.example", "10.66.77.88", "2001:db8")
SECRETS = (USER, HOST, PROJECT, DATA, "secret_model", "s3cr3t-token", "batch-of-doom", *ADDRESSES)
FRAME = encode_bytes(3, f"/home/{USER}/{PROJECT}/secret_model.py") + encode_integer(4, 7)
DOT = encode_bytes(1, "dot.1") + encode_bytes(7, FRAME)
HLO = encode_bytes(1, encode_bytes(3, encode_bytes(2, DOT)))
SCRIPT = """
import sys
import numpy as np, keras
x, y = np.zeros((320, 8), "float32"), np.zeros((320, 1), "float32")

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        sorted("falcon-gpu-07 of /data/patients/scans" * 4000)

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, epochs=40, batch_size=8, verbose=0, callbacks=[Slow()])
"""


def planted() -> SpaceBuilder:
    """A profile with secrets wherever it has texts: names, stats, a program, errors."""
    home = f"/home/{USER}/{PROJECT}"
    space = SpaceBuilder(f"{HOST}.corp.example:6009")
    space.errors.append(f"dropped events on {HOST.upper()} of {USER}; see {home}/log dir/errors.txt")
    space.errors.append(f"lost 10.66.77.88:8470 and [2001:db8::7]:8470; ask {USER}.x@{PROJECT}.example; TOKEN=s3cr3t-token")
    host = space.plane("/host:CPU")
    host.stat("path", f"gs://{PROJECT}-bucket/{DATA}").stat("note", Inline(f"{USER}@{HOST}"))
    read = f"read from C:\\Users\\{USER}\\{DATA}\\a.bin"
    host.describe("work", f"{home}/secret_model.py:41", source=f"{home}/secret_model.py", long_name=read)
    line = host.line(f"python {home}/secret_model.py")
    for step in range(6):
        at = step * 10**9
        line.event("train", at, 9 * 10**8, _r=1, step_num=step, run_id=step)
        line.event(f"$secret_model.py:{step} train_step", at + 10**7, 10**8, where=Inline(f"~/{PROJECT}/{DATA}.csv"))
        line.event(
            f"GET https://me:{USER}@{PROJECT}.example:443/{DATA}?q=(1)", at + 8 * 10**8, 10**6, why=Inline(f"./{DATA}/x")
        )
        line.event("work", at + 2 * 10**8, 5 * 10**8, tf_op=f"{home}/x/y:Load", file=f"/mnt/{DATA}/part-{step}.tfrecord")
    metadata = space.plane("/host:metadata")
    metadata.describe("jit_step(1)", hlo_proto=HLO)
    metadata.line("programs").event("jit_step(1)", 0, 1)
    return space


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "outpace", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def outputs(profile: str, cwd: Path) -> Iterator[tuple[str, bytes]]:
    """(what, content) of everything that a command writes of a profile, in every form."""
    out = cwd / "out"
    shown = ("report", profile, "--redact")
    for name, words in {
        "text": (*shown, "--details"),
        "markdown": (*shown, "--markdown"),
        "tool": (*shown, "--tool", "overview"),
        "json": (*shown, "--json", "--html", "out/report.html", "--csv", "out/csv"),
        "explain": ("explain", profile, "--redact"),
        "explain json": ("explain", profile, "--redact", "--json"),
        "compare": ("compare", profile, "more", "--redact", "--details", "--html", "out/compare.html", "--csv", "out/compare"),
        "compare json": ("compare", profile, "more", "--redact", "--json"),
    }.items():
        done = run(*words, cwd=cwd)
        yield name, done.stdout.encode()
    for name in ("t.pftrace", "t.json", "t.pftrace.gz"):
        run("trace", profile, "--out", f"out/{name}", "--redact", cwd=cwd)
    run("export", profile, "more", "--parquet", "out/parquet", "--redact", cwd=cwd)
    for path in sorted(out.rglob("*")):
        if path.suffix == ".parquet":
            yield path.name, json.dumps(read_parquet(path), default=str).encode()
        elif path.is_file():
            content = path.read_bytes()
            yield path.name, gzip.decompress(content) if path.suffix == ".gz" else content


def read_parquet(path: Path) -> object:
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    return [table.to_pylist(), str(table.schema)]


def test_no_secret_is_in_any_output_of_a_planted_profile(tmp_path: Path) -> None:
    logs = tmp_path / USER / PROJECT
    logs.mkdir(parents=True)
    planted().write(logs / f"{HOST}.xplane.pb")
    more = planted()
    more.plane("/host:CPU").line("other").event("more", 0, 5 * 10**9)
    (tmp_path / "more").mkdir()
    more.write(tmp_path / "more" / f"{HOST}.xplane.pb")
    plain = run("report", str(logs), "--json", cwd=tmp_path).stdout + run("explain", str(logs), "--json", cwd=tmp_path).stdout
    assert {USER, HOST, PROJECT, "secret_model"} <= {secret for secret in SECRETS if secret in plain}  # they would be told
    found = dict(outputs(str(logs), tmp_path))
    assert len(found) > 30
    for what, content in found.items():
        told = [secret for secret in (*SECRETS, str(tmp_path)) if secret.encode() in content]
        assert not told, f"{what}: {told}"


@pytest.mark.parametrize("name", ["tpu_v6e_inference", "jax_cpu_steps", "multi_host", "retracing"])
def test_what_is_said_and_all_numbers_are_those_of_the_profile(name: str) -> None:
    with outpace.open(PROFILES / name) as whole, outpace.open(PROFILES / name, redact=True) as hidden:
        plain, redacted = whole.report(), hidden.report()
        hosts = {one.host: two.host for one, two in zip(whole.run.hosts, hidden.run.hosts, strict=True)}
    assert [f.id for f in plain.findings] == [f.id for f in redacted.findings]
    assert [f.saving for f in plain.findings] == [f.saving for f in redacted.findings]
    headline = plain.headline
    for one, two in hosts.items():
        headline = headline.replace(one, two)
    assert headline == redacted.headline
    for page, same in zip(plain.pages, redacted.pages, strict=True):
        assert numbers(page) == numbers(same)
    for secret in ("davelacey", *(h for h in hosts if len(h) > 3)):
        assert not [page.id for page in redacted.pages for table in page.tables() if secret in str(list(table.records()))]


def numbers(page: Page) -> dict[str, list[str]]:
    """The numbers of all tables, each column sorted: rows ordered by a name may change places."""
    return {
        f"{table.name}.{field.name}": sorted(str(value) for value in table[field.name].tolist())
        for table in page.tables()
        for field in table.fields
        if np.issubdtype(table[field.name].dtype, np.number)
    }


def test_a_tool_that_fails_names_no_file_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: object) -> Page:
        raise OSError(f"/srv/{PROJECT}/cache cannot be read on {HOST}")

    monkeypatch.setattr("outpace.tools.overview.page.analyse", broken)
    planted().write(tmp_path / f"{HOST}.xplane.pb")
    with outpace.open(tmp_path, redact=True) as profile:
        (failed,) = profile.report().failed_pages()
    assert failed.failure is not None and "OSError" in failed.failure.error and "line " in failed.failure.trace
    folders = [str(Path(__file__).parent), str(Path(outpace.__file__).parents[2]), PROJECT, HOST]
    assert not [secret for secret in folders if secret in failed.failure.error + failed.failure.trace]


def test_hosts_that_remarks_alone_name_have_stand_ins(tmp_path: Path) -> None:
    for number in (1, 2, 4, 5):
        planted().write(tmp_path / f"falcon-{number}.xplane.pb")
    (tmp_path / "falcon-6.xplane.pb").write_bytes(b"no profile")
    with outpace.open(tmp_path, redact=True) as profile:
        remarks = " ".join(profile.run.remarks)
    assert "is missing" in remarks and "is left out" in remarks
    assert "falcon" not in remarks and str(tmp_path) not in remarks


@pytest.mark.parametrize("host", ["train", "step", "Iterator"])
def test_a_host_that_is_called_like_an_event_changes_no_finding(host: str, tmp_path: Path) -> None:
    (profile,) = (PROFILES / "tfdata_heavy").glob("*.xplane.pb*")
    (tmp_path / f"{host}{profile.name[profile.name.index('.xplane') :]}").write_bytes(profile.read_bytes())
    with outpace.open(tmp_path) as whole, outpace.open(tmp_path, redact=True) as hidden:
        plain, redacted = whole.report(), hidden.report()
    assert [(f.id, f.saving) for f in plain.findings] == [(f.id, f.saving) for f in redacted.findings]


def test_two_profiles_share_their_stand_ins(tmp_path: Path) -> None:
    from outpace.model.redaction import Redaction

    shared = Redaction()
    names = []
    for host in ("one", "two"):
        planted().write(tmp_path / f"{host}.xplane.pb")
        with outpace.open(tmp_path / f"{host}.xplane.pb", redact=shared) as profile:
            names.append(profile.run.hosts[0].trace.names)
    assert names[0] == names[1] and not [name for name in names[0] if "secret" in name]


@needs_tensorflow
def test_no_secret_is_in_any_output_of_a_captured_script(tmp_path: Path) -> None:
    """Its record holds the script, its arguments, its lines of source and their text."""
    folder = tmp_path / f"{USER}" / PROJECT
    folder.mkdir(parents=True)
    (folder / "secret_model.py").write_text(SCRIPT)
    arguments = ("--name", "s3cr3t-token", "batch-of-doom")  # named as a secret, dots would stand for it anyway
    script = str(folder / "secret_model.py")
    done = run("profile", "--logdir", "logs", "--redact", "--json", script, *arguments, cwd=tmp_path)
    run("profile", "--logdir", "more", "--json", script, *arguments, cwd=tmp_path)
    secrets = (*SECRETS, str(tmp_path), script)
    assert not [secret for secret in secrets if secret in done.stdout]
    plain = run("report", "logs", "--json", cwd=tmp_path).stdout
    assert {"secret_model", "s3cr3t-token", "batch-of-doom", USER} <= {secret for secret in secrets if secret in plain}
    for what, content in (*outputs("logs", tmp_path), ("page", next(tmp_path.glob("logs/*.html")).read_bytes())):
        told = [secret for secret in secrets if secret.encode() in content]
        assert not told, f"{what}: {told}"


def test_what_cannot_be_redacted_is_refused(tmp_path: Path) -> None:
    planted().write(tmp_path / f"{HOST}.xplane.pb")
    (tmp_path / "stored.json").write_text(run("report", f"{HOST}.xplane.pb", "--json", cwd=tmp_path).stdout)
    run("baseline", "save", "kept", f"{HOST}.xplane.pb", cwd=tmp_path)
    for words in (("report", "stored.json", "--redact"), ("compare", "kept", f"{HOST}.xplane.pb", "--redact")):
        command = [sys.executable, "-m", "outpace", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 2 and "redacted" in done.stderr
