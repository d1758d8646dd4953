# SPDX-License-Identifier: Apache-2.0
"""Checks which packages are installed, and which of them are known not to work together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.doctor.facts import DoctorFacts, FrameworkFacts, last_lines
from outpace.doctor.probe import TENSORFLOWS
from outpace.doctor.result import CheckResult, note, ok, problem, unchecked
from outpace.doctor.system import System
from outpace.frameworks.probe import missing_names

_LISTED_PACKAGES = ("numpy", "protobuf", "tf-keras", "tensorboard", "tensorboard-plugin-profile", "xprof")
_OURS = compile_lazily(r"^(tensorflow|tf[-_]|keras|jax|tensorboard|xprof|numpy|protobuf)", re.IGNORECASE)


class Packages:
    """Installed packages with comparable versions."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        """`versions` are texts by package name; a TensorFlow of another name (`tensorflow-cpu`,
        ...) is also listed as `tensorflow`.
        """
        self.versions = dict(versions)
        self.tensorflows = [name for name in TENSORFLOWS if name in versions]
        if self.tensorflows:
            self.versions.setdefault("tensorflow", versions[self.tensorflows[0]])

    def __contains__(self, name: str) -> bool:
        return name in self.versions

    def is_older(self, name: str, *release: int) -> bool:
        """Whether the package is installed and older than a release."""
        return name in self.versions and self.release(name) < release

    def is_at_least(self, name: str, *release: int) -> bool:
        """Whether the package is installed and not older than a release."""
        return name in self.versions and self.release(name) >= release

    def release(self, name: str) -> tuple[int, ...]:
        """Return the numeric release of a package: (2, 21, 0) for 2.21.0rc1; () for a package that
        is not installed.
        """
        match = re.match(r"[0-9]+(\.[0-9]+)*", self.versions.get(name, ""))
        return tuple(int(part) for part in match[0].split(".")) if match else ()


@dataclass(frozen=True)
class Mismatch:
    """Packages that do not work together.

    id: name of the mismatch.
    applies: whether the installed packages have it.
    text: what happens then.
    command: command that ends it.
    broken_framework: framework whose import then fails; "" where captures work and another tool
    fails.
    """

    id: str
    applies: Callable[[Packages], bool]
    text: str
    command: str
    broken_framework: str = ""


def _unlike_jaxlib(plugin: str, packages: Packages) -> bool:
    return plugin in packages and "jaxlib" in packages and packages.release(plugin) != packages.release("jaxlib")


MISMATCHES = (
    Mismatch(
        # Both install the folder `tensorflow/`; https://github.com/rlworkgroup/garage/issues/251
        "two-tensorflows",
        lambda p: len(p.tensorflows) > 1,
        "More than one TensorFlow is installed, and each overwrites files of the other; keep one.",
        "pip uninstall -y {tensorflows} && pip install 'tensorflow=={tensorflow}'",
    ),
    Mismatch(
        # Requires-Dist of tensorflow 2.16 and 2.17 is numpy<2.0;
        # https://github.com/tensorflow/tensorflow/issues/102743
        "numpy",
        lambda p: p.is_older("tensorflow", 2, 18) and p.is_at_least("numpy", 2),
        "TensorFlow {tensorflow} was compiled for NumPy 1 and fails with NumPy {numpy}.",
        "pip install 'numpy<2'",
        "tensorflow",
    ),
    Mismatch(
        # "Starting with TF 2.15, if Keras 3 is installed, tf.keras will be Keras 3":
        # https://discuss.ai.google.dev/t/keras-newsletter-december-1-2023/28008
        "keras",
        lambda p: p.is_at_least("keras", 3) and p.is_older("tensorflow", 2, 15),
        "Keras {keras} needs TensorFlow 2.15 or newer; here is {tensorflow}.",
        "pip install 'keras<3'",
        "tensorflow",
    ),
    Mismatch(
        # Requires-Dist of tf-keras 2.18.0 is tensorflow<2.19,>=2.18, and so for each release
        "tf-keras",
        lambda p: "tf-keras" in p and "tensorflow" in p and p.release("tf-keras")[:2] != p.release("tensorflow")[:2],
        "tf-keras {tf-keras} belongs to TensorFlow of the same number; here is {tensorflow}.",
        "pip install 'tf-keras=={tensorflow_minor}.*'",
    ),
    Mismatch(
        # check_jaxlib_version in jax/_src/lib/__init__.py raises then;
        # https://github.com/jax-ml/jax/issues/17638
        "jaxlib",
        lambda p: "jax" in p and "jaxlib" in p and p.release("jaxlib") > p.release("jax"),
        "jaxlib {jaxlib} is newer than jax {jax}, which refuses it.",
        "pip install -U 'jaxlib=={jax}'",
        "jax",
    ),
    *(
        Mismatch(
            # "JAX plugin ... is not compatible with the installed jaxlib":
            # https://github.com/ma-gilles/recovar/issues/64
            f"jax-{cuda}-plugin",
            partial(_unlike_jaxlib, f"jax-{cuda}-plugin"),
            f"jax-{cuda}-plugin {{jax-{cuda}-plugin}} does not belong to jaxlib {{jaxlib}}: JAX may leave the GPU unused.",
            f"pip install -U 'jax[{cuda}]=={{jax}}'",
        )
        for cuda in ("cuda12", "cuda13")
    ),
    Mismatch(
        # TensorBoard then stops with "Duplicate plugins for name profile"; from 2.20 on the plugin
        # is only a name for xprof
        "two-profile-plugins",
        lambda p: "xprof" in p and p.is_older("tensorboard-plugin-profile", 2, 20),
        "xprof and tensorboard-plugin-profile {tensorboard-plugin-profile} are both installed, and TensorBoard does not start with "
        "both; xprof is the newer one.",
        "pip uninstall -y tensorboard-plugin-profile",
    ),
    Mismatch(
        # "Descriptors cannot be created directly": https://github.com/openxla/xprof/issues/609;
        # 2.13.1 was generated anew
        "profile-plugin",
        lambda p: "xprof" not in p and p.is_older("tensorboard-plugin-profile", 2, 13, 1) and p.is_at_least("protobuf", 4),
        "tensorboard-plugin-profile {tensorboard-plugin-profile} was generated for protobuf 3; here is {protobuf}, and TensorBoard shows no "
        "profiles.",
        "pip uninstall -y tensorboard-plugin-profile && pip install xprof",
    ),
    Mismatch(
        # https://github.com/tensorflow/tensorboard/issues/7003 and 7107
        "tensorboard",
        lambda p: p.is_older("tensorboard", 2, 21) and p.is_at_least("setuptools", 82),
        "TensorBoard {tensorboard} imports pkg_resources, which setuptools {setuptools} no longer has, and does not start.",
        "pip install 'setuptools<82'",
    ),
    Mismatch(
        # https://github.com/tensorflow/tensorboard/issues/5088,
        # https://github.com/pytorch/kineto/issues/270
        "torch-tb-profiler",
        lambda p: "torch-tb-profiler" in p and "tensorboard" in p,
        "torch-tb-profiler can make TensorBoard hang on log directories without a PyTorch profile.",
        "pip uninstall -y torch-tb-profiler",
    ),
)


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Check the Python, its frameworks, known mismatches, and the output of `pip check`."""
    results = [*_python(facts), *_frameworks(system, facts), *_mismatches(facts)]
    return [*results, *_requirements(facts), *_callback(facts), *_private_names(system, facts)]


def _python(facts: DoctorFacts) -> list[CheckResult]:
    versions = [f"{name} {facts.packages[name]}" for name in _LISTED_PACKAGES if name in facts.packages]
    results = [
        ok("python", f"Python {facts.python_version}" + (f" with {', '.join(versions)}." if versions else "."), facts.python)
    ]
    if facts.outpace is None:
        text = "This Python does not have Outpace, which must be importable where the training runs."
        results.append(problem("outpace", text, facts.python, command="pip install outpace"))
    return results


def _frameworks(system: System, facts: DoctorFacts) -> list[CheckResult]:
    if not facts.frameworks:
        text = "This Python has neither TensorFlow nor JAX: reports work, captures do not."
        return [problem("framework", text, facts.python, command="pip install tensorflow-cpu libcst")]
    return [_framework(system, facts, framework) for framework in facts.frameworks]


def _framework(system: System, facts: DoctorFacts, framework: FrameworkFacts) -> CheckResult:
    if framework.failure:
        commands = _known_repairs(facts, framework.name)
        text = f"{framework.title} {framework.failure}".rstrip(".") + "."
        return problem(
            framework.name,
            text,
            *last_lines(framework.stderr),
            command=commands[0] if commands else _reinstall(facts, framework),
        )
    keras = str(framework.answer.get("keras", ""))
    if "keras_error" in framework.answer and system.environment.get("TF_USE_LEGACY_KERAS", "") in ("1", "true", "True"):
        text = f"TensorFlow {framework.version} works, but TF_USE_LEGACY_KERAS asks for tf-keras, which cannot be imported."
        command = f"pip install 'tf-keras=={_minor(framework.version)}.*'"
        return problem(framework.name, text, str(framework.answer["keras_error"]), command=command)
    with_keras = f" with Keras {keras}" if keras else ""
    text = f"{framework.title} {framework.version}{with_keras}, imported in {framework.seconds:.1f} s."
    return ok(framework.name, text, str(framework.answer.get("file", "")))


def _known_repairs(facts: DoctorFacts, framework: str) -> list[str]:
    """Return the repair commands of the mismatches that break this framework's import."""
    packages = Packages(facts.packages)
    return [
        _fill(mismatch.command, packages)
        for mismatch in MISMATCHES
        if mismatch.broken_framework == framework and mismatch.applies(packages)
    ]


def _mismatches(facts: DoctorFacts) -> Iterator[CheckResult]:
    """Yield a result for each known mismatch; one that should break an import is only a note where
    the import worked.
    """
    packages = Packages(facts.packages)
    broken = {framework.name for framework in facts.frameworks if framework.failure}
    for mismatch in MISMATCHES:
        if mismatch.applies(packages):
            make = problem if mismatch.broken_framework in broken else note
            command = _fill(mismatch.command, packages)
            yield make(f"versions-{mismatch.id}", _fill(mismatch.text, packages), command=command)


def _requirements(facts: DoctorFacts) -> list[CheckResult]:
    if facts.requirements is None:
        return [unchecked("requirements", "This Python has no pip that could check what its packages require.")]
    wrong = tuple(line for line in facts.requirements if _OURS.match(line))
    if wrong:
        text = "pip finds packages whose requirements are not met."
        return [note("requirements", text, *wrong, command="pip check")]
    return [ok("requirements", "pip finds the requirements of these packages met.")]


def _callback(facts: DoctorFacts) -> list[CheckResult]:
    """Note that the TensorBoard callback of Keras 3 marks no steps:
    https://github.com/tensorflow/tensorboard/issues/6954,
    https://github.com/openxla/xprof/issues/578.
    """
    packages = Packages(facts.packages)
    if not packages.is_at_least("keras", 3):
        return []
    text = (
        "The TensorBoard callback of Keras 3 marks no steps, so XProf finds none in what it captures (profile_batch). "
        "outpace.ProfilerCallback and `outpace profile` mark them; outpace.mark_tensorboard_steps() before fit fixes the stock callback."
    )
    return [note("keras-callback", text, f"Keras {facts.packages['keras']}", command="outpace profile SCRIPT")]


def _private_names(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Note the private names of the frameworks that Outpace uses and that these versions lack."""
    missing = [name for folder in facts.site for name in missing_names(folder, system.read)]
    text = (
        "Outpace uses private names of these frameworks that the installed versions do not have: captures lack what needs them, "
        "and outpace tune may refuse a script."
    )
    return [note("private-names", text, *missing, command="pip install -U outpace")] if missing else []


def _fill(text: str, packages: Packages) -> str:
    values = {**packages.versions, "tensorflows": " ".join(packages.tensorflows)}
    values["tensorflow_minor"] = _minor(values.get("tensorflow", ""))
    return re.sub(r"\{([a-z0-9_-]+)\}", lambda match: values.get(match[1], match[0]), text)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _reinstall(facts: DoctorFacts, framework: FrameworkFacts) -> str:
    name = Packages(facts.packages).tensorflows if framework.name == "tensorflow" else ["jax"]
    return f"pip install --force-reinstall {(name or ['tensorflow'])[0]}"
