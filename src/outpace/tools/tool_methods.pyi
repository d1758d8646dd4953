"""The tools as methods, for editors and type checkers.

Made from the tools by tests/architecture/test_tool_methods.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

from outpace.model import Page
from outpace.model.categories import Category

class ToolMethods:
    """Gives a class that has `page(tool_id)` one method per tool, also of other distributions."""

    def page(self, tool: str, **options: Any) -> Page: ...
    def __dir__(self) -> Iterable[str]: ...
    def __getattr__(self, name: str) -> Callable[..., Page]: ...
    def explain(self, *, step: int | None = ..., category: Category | str | None = ..., host: str | None = ...) -> Page:
        """Which events make up the time of one step, category by category?"""
    def functions(self) -> Page:
        """Which functions are traced or compiled again and again, and because of which argument?"""
    def hlo_stats(self) -> Page:
        """Which compiled programs and HLO ops take the time, where do they come from, and what limits them?"""
    def inference(self) -> Page:
        """How long do predictions take, and where did the slowest ones spend their time?"""
    def input_pipeline(self) -> Page:
        """Is the program waiting for input data, and where does input processing spend its time?"""
    def kernel_stats(self) -> Page:
        """Which GPU kernels take the time, which op launched them, and why is the GPU idle?"""
    def memory_profile(self) -> Page:
        """How much memory is in use, what holds it at the peak, does it grow, and what still fits?"""
    def model_time(self) -> Page:
        """Which layers and lines of the model take the time of its computation, and what there could be faster?"""
    def op_stats(self) -> Page:
        """Which ops, and which types of op, take the time on the host and on the device?"""
    def overview(self) -> Page:
        """Where does the average step's time go, and what should I change first?"""
    def pod(self) -> Page:
        """Do all workers take the same time for a step, and if not, which one is slow, and why?"""
    def program_memory(self) -> Page:
        """How much memory does each compiled program need, and which arrays stand at its peak?"""
    def python_time(self) -> Page:
        """Which lines of Python take the time of the training thread, and what do they wait for?"""
    def scopes(self, *, model: Any = ..., max_depth: int = ..., show_trainable: bool = ...) -> Page:
        """Which layer, which part of the model, or which line of code takes the time and the memory?"""
    def startup_time(self) -> Page:
        """What happens between the command and the first steady step, and what makes a start shorter?"""
    def tf_data(self) -> Page:
        """Which stage of the input pipeline limits it, and which stages only wait?"""
