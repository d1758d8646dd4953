"""What `tune` calls proven was compared over the whole training; of one that was cut every output
says in how many of its passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpace.report import csv_, html, json_, markdown, terminal
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.outcome import Climbed, Tried
from outpace.tune.pages.tuning import ID
from outpace.tune.patch import FileChange
from outpace.tune.proof import Proof
from outpace.tune.risk import Risk
from outpace.tune.same import Judgement, Standing
from outpace.tune.searched import Searched, Stack
from outpace.tune.session import Tuned
from outpace.tune.texts.place import Place
from outpace.tune.trial import Experiment, run_experiment
from tests.unit.tune.simulated import Machine
from tests.unit.tune.test_tune_written import plan

CLAIM = re.compile(
    r"(?<!not )(?<!effect )(?<!--require )\bproven\b|\bproof\b|(?<!nothing that )\bproves\b(?! nothing)", re.IGNORECASE
)
COUNTS = st.just(0) | st.integers(1, 10**7)
JUDGEMENTS = st.builds(
    Judgement,
    same=st.just(True),
    why=st.just("the same program"),
    compared=st.integers(1, 10**6),
    passes=st.integers(1, 10**6),
    missed=st.lists(st.integers(1, 500), max_size=2).map(tuple),
    whole=st.booleans(),
    sampled=st.integers(0, 3),
    allowed=st.booleans(),
    shown=st.sampled_from(["", "steps 1-66, 999999-1000000 of 1000000"]),
    omissions=st.sampled_from([(), ("main:w (chance makes it)",)]),
    parts=st.sampled_from([0, 0, 12]),
    made=COUNTS,
    length=COUNTS,
)


@cache
def race() -> Experiment:
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    return run_experiment([machine.arm("as it is"), machine.arm("jax.jit", 2.0)], budget=20, clock=machine.clock)


def tuned(judgement: Judgement, **asked: object) -> Tuned:
    change = Candidate("jit", "jax.jit", "why", Risk.EXACT, (FileChange("/x/train.py", "a = 1\n", "a = 2\n"),), ("Add it",))
    stack, verdict = Stack((change,), {"/x/train.py": "a = 2\n"}), race().verdict("jax.jit")
    climbed = Climbed(None, (Tried.judged("jit", "jax.jit", verdict, "why"),), (race(),), 60.0, "nothing else is left to try")
    searched = replace(Searched(climbed, None, (), Place(), 1), stack=stack, sources={"/x/train.py": "a = 1\n"})
    proof = Proof(stack, judgement, race(), verdict.estimate)
    wanted = {**plan(), **asked}
    return Tuned(wanted, 0, None, searched, proof.meeting(Standing(str(wanted["require"]))))


def outputs(found: Tuned, folder: Path) -> Iterator[tuple[str, str]]:
    """Everything that a tuning prints or writes, on one line each, by its form."""
    made, patch = found.report, found.patch
    texts = {
        "screen": terminal.render(made, tools=[ID]),
        "details": terminal.render(made, details=True),
        "narrow": terminal.render(made, width=60),
        "str": str(found),
        "notebook": found._repr_html_(),
        "markdown": markdown.render(made),
        "html": html.render(made),
        "json": json_.render(made),
    }
    if patch is not None:
        texts["diff"] = patch.diff()
    csv_.write(made, folder)
    texts |= {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    yield from ((form, re.sub(r"\s+", " ", text)) for form, text in texts.items())


@settings(max_examples=25)
@given(JUDGEMENTS)
def test_no_output_calls_a_cut_training_proven(tmp_path_factory: pytest.TempPathFactory, judgement: Judgement) -> None:
    found = tuned(judgement)
    cut = not judgement.whole or bool(judgement.parts) or bool(judgement.omissions)
    assert found.standing == ("allowed" if judgement.allowed else "compared" if cut else "proven")
    for form, text in outputs(found, tmp_path_factory.mktemp("words")):
        if cut or judgement.allowed:
            assert not CLAIM.search(text), (form, CLAIM.search(text), text[:3000])
        if not form.endswith(".csv"):
            said = {"proven": "Proven the same program", "allowed": "which was allowed"}.get(
                found.standing, f"in {judgement.scope}"
            )
            assert said in text.replace("&#39;", "'"), form
    document = json.loads(json_.render(found.report))
    assert (f"in {judgement.scope}" in document["headline"]) == (found.standing == "compared")
    table = document["tools"]["tune_details"]["tables"]["kept"]
    row = dict(zip((column["name"] for column in table["columns"]), table["rows"][0], strict=True))
    assert row["standing"] == found.standing
    known = judgement.made / judgement.length if judgement.made and judgement.length else None
    if found.standing == "compared":
        assert "no caveat is known" not in terminal.render(found.report)
        assert row["share"] == (None if known is None else pytest.approx(min(1.0, known)))


@given(JUDGEMENTS)
@settings(max_examples=25)
def test_where_a_proof_is_required_nothing_else_is_kept(judgement: Judgement) -> None:
    found = tuned(judgement, require="proven")
    proven = judgement.whole and not (judgement.parts or judgement.omissions or judgement.allowed)
    assert (found.patch is not None) == (found.gain is not None) == proven
    assert bool(found.unmet) != proven
    assert found.standing == ("proven" if proven else "")


def test_a_training_of_which_a_few_passes_were_compared_says_how_many() -> None:
    cut = Judgement(
        True,
        "the same program",
        7752,
        1_000_000,
        whole=False,
        made=68,
        length=1_000_000,
        shown="steps 1-66, 999999-1000000 of 1000000",
    )
    said = tuned(cut).report.headline
    assert said.startswith("Speed-up 2.00x in the 68 of 1,000,000 passes that were compared, 95% CI ")
    assert cut.sentence.startswith("compared in 68 of 1,000,000 passes, 7,752 values; these were steps 1-66, 999999-1000000")
    assert replace(cut, length=0).extent == "68 passes of a training of unknown length", "a while loop"


def test_the_exit_code_says_that_a_proof_was_required(capfd: pytest.CaptureFixture[str]) -> None:
    from outpace.cli.tune import _report_tuning

    whole, cut = (
        Judgement(True, "the same program", 12, 64, made=64, length=64),
        Judgement(True, "", 12, 64, whole=False, made=64, length=1000),
    )
    codes = {
        (kept.whole, asked): _report_tuning(tuned(kept, require=asked), 1.0)
        for kept in (whole, cut)
        for asked in ("compared", "proven")
    }
    assert codes == {(True, "compared"): 0, (True, "proven"): 0, (False, "compared"): 0, (False, "proven"): 13}
    assert (
        "outpace: A proven speed-up was required, and there is none: the speed-up is 2.00x in the 64 of 1,000 passes"
        in capfd.readouterr().err
    )


def test_a_diff_says_what_is_known_above_it_and_is_applied_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    from outpace.tune.patch import write_patch

    monkeypatch.chdir(tmp_path)
    cut = Judgement(True, "the same program", 12, 64, whole=False, made=64, length=1000, shown="steps 1-64 of 1000")
    found = tuned(cut)
    assert found.proof is not None and found.proof.stack is not None and found.searched is not None
    here = str(tmp_path / "train.py")
    stack = replace(found.proof.stack, texts={here: "a = 2\n"})
    patch = replace(
        found, proof=replace(found.proof, stack=stack), searched=replace(found.searched, sources={here: "a = 1\n"})
    ).patch
    assert patch is not None
    for command in ("patch -p0 < fast.patch", "git apply -p0 fast.patch"):
        Path("train.py").write_text("a = 1\n", encoding="utf-8")
        Path("fast.patch").unlink(missing_ok=True)
        write_patch(patch, tmp_path / "fast.patch")
        first, second, *_ = Path("fast.patch").read_text(encoding="utf-8").splitlines()
        assert first.startswith("# Speed-up 2.00x in the 64 of 1,000 passes that were compared, 95% CI ")
        assert second.startswith(
            "# No difference was found there: compared in 64 of 1,000 passes, 12 values; these were steps 1-64 of 1000"
        )
        subprocess.run(command, shell=True, check=True, timeout=60, capture_output=True)
        assert Path("train.py").read_text(encoding="utf-8") == "a = 2\n"
