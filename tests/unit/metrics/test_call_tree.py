from outpace.metrics.call_tree import build_call_tree, call_tree_type

TREE = call_tree_type("t", "T", node="what", total="time below it too", own="time in itself", count="how often")


def test_times_of_paths_add_up_from_below() -> None:
    paths = [(("fit", "step"), 30, 3), (("fit",), 10, 1), (("fit", "step", "", "step"), 5, 1), (("save",), 55, 2)]
    rows = [tuple(row.values()) for row in build_call_tree(TREE, paths).records()]
    assert rows == [
        # name, total, share, self, count, depth, id, parent
        ("save", 55, 0.55, 55, 2, 0, 1, 0),
        ("fit", 45, 0.45, 10, 5, 0, 2, 0),
        ("step", 35, 0.35, 30, 4, 1, 3, 2),
        ("", 5, 0.05, 0, 1, 2, 4, 3),
        ("step", 5, 0.05, 5, 1, 3, 5, 4),
    ]


def test_nothing_is_an_empty_tree() -> None:
    assert len(build_call_tree(TREE, [])) == 0
