import dataclasses

from outpace.model import Command
from outpace.report import markdown
from tests.unit.report.report_samples import hostile, realistic


def test_it_holds_what_the_first_screen_holds() -> None:
    report = dataclasses.replace(realistic(), next=(Command("outpace explain logs", "the slowest step"),))
    text = markdown.render(report)
    marks = [
        "> **Warning:** worker-3.xplane.pb",
        "**The program is input-bound",
        "| Input | 31.6 ms | 51.7% |",
        "1. ",
        "(`train.py:41`)",
        "Saves 18.0 to 30.0 ms per step (30.0 to 50.0% of the 60.0 ms step without the profiler).",
        "Confidence:",
        "Profile: `logs/plugins/profile/2026_11_21` · next: `outpace explain logs`",
    ]
    places = [text.index(m) for m in marks]
    assert places == sorted(places)


def test_a_name_is_no_markup() -> None:
    one = dataclasses.replace(realistic().findings[0], sentence="a *b* [c](d) <e> `f` | g", location="x`y.py:1")
    text = markdown.render(dataclasses.replace(realistic(), findings=(one,)))
    assert r"a \*b\* \[c\](d) \<e\> \`f\` \| g" in text
    assert "`` x`y.py:1 ``" in text
    assert "\x1b" not in markdown.render(hostile())
