"""Lines that a run has printed."""

from __future__ import annotations

from outpace.tune.same.lines import error_lines, lines_drawn, shown_lines


def test_logs_of_libraries_are_left_out_and_those_of_python_have_no_time() -> None:
    text = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:1764499.1 123 service.cc:145] XLA service initialised\n"
        "2026-03-02 07:02:44.3: W external/xla/tsl/framework/bfc_allocator.cc:501] full\n"
        "I1130 12:00:00.123456 4242 train.py:12] loss 0.5\n"
        "step 20\r 50%|#####"
    )
    assert error_lines(text) == ("loss 0.5", "step 20", "\r 50%|#####")


def test_only_what_goes_back_in_its_line_or_comes_from_keras_is_a_bar() -> None:
    steps = [f"{at}0%| loss {at}.5" for at in range(3)]
    assert shown_lines(lines_drawn("\n".join(steps))) == steps, "a compiled function's own lines are all compared"
    assert shown_lines(lines_drawn("\r" + "\r".join(steps))) == steps[-1:]
    assert shown_lines(lines_drawn("\n".join(steps)), drawn=steps) == steps[-1:]
    assert shown_lines(lines_drawn("\r" + "\r".join(steps)), own=steps) == steps
    assert len({*map(str, (shown_lines([f"\r2/2 ━━━━ {pace}ms/step{' ' * pad}"]) for pace, pad in ((5, 1), (13, 0))))}) == 1
