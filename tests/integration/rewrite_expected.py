"""Which rewrites each pipeline of the matrix accepts, by risk; everything that is not named is refused with a reason.

`thread_pool`, which changes nothing but options, is accepted by every one and left out here.
"""

from __future__ import annotations

EXACT, REORDERED, STATISTICAL = "exact", "reordered", "statistical"
ACCEPTED: dict[str, dict[str, str]] = {
    "map": {"batch_before_map": EXACT, "cache": EXACT},
    "captured_variable": {"batch_before_map": EXACT, "parallel_map": EXACT, "split_map": EXACT},
    "lookup_table": {"cache": EXACT, "parallel_map": EXACT},
    "random_global_seed": {"parallel_map": STATISTICAL},
    "random_op_seed": {"parallel_map": STATISTICAL},
    "random_stateless": {"cache": EXACT},
    "random_generator": {"parallel_map": STATISTICAL},
    "numpy_function": {"cache": EXACT, "parallel_map": STATISTICAL},
    "from_generator": {"batch_before_map": EXACT},
    "tensor_slices": {"batch_before_map": EXACT, "cache": EXACT},
    "interleave": {"cache": EXACT, "parallel_interleave": EXACT},
    "interleave_default": {"cache": EXACT, "parallel_interleave": EXACT},
    "records_of_shuffled_files": {},
    "shuffle_seed": {"batch_before_map": EXACT, "cache": EXACT},
    "shuffle_once": {"batch_before_map": EXACT, "cache": EXACT},
    "cache": {"batch_before_map": EXACT, "cache": EXACT},
    "options": {"batch_before_map": EXACT, "cache": EXACT},
    "window": {"cache": EXACT},
    "padded": {"cache": EXACT},
    "ragged": {"cache": EXACT},
    "sparse": {"cache": EXACT},
    "filter_take_skip": {"cache": EXACT},
    "group_by_window": {"cache": EXACT},
    "scan": {"cache": EXACT},
    "unbatch": {"cache": EXACT},
    "ignore_errors": {"cache": EXACT, "parallel_map": EXACT},
    "zip": {"cache": EXACT},
    "concatenate": {"cache": EXACT},
    "sample_from_datasets": {"cache": EXACT},
    "choose_from_datasets": {},
    "rejection_resample": {"batch_before_map": EXACT, "cache": EXACT},
    "keras_folder": {"any_order": REORDERED, "cache": EXACT},
    "jpeg": {"parallel_map": STATISTICAL, "split_map": EXACT},
    "elementwise": {"batch_before_map": EXACT, "cache": EXACT},
    "standardised": {"cache": EXACT, "vectorised_map": EXACT},
    "averaged": {"cache": EXACT, "vectorised_map": EXACT},
    "float_then_flip": {"any_order": STATISTICAL, "split_map": EXACT},
    "map_then_shuffle": {"cache": EXACT, "shuffle_before_map": EXACT},
    "late_shard": {"cache": EXACT, "shard_early": EXACT},
    "shuffle_then_cache": {"batch_before_map": EXACT, "cache_before_shuffle": REORDERED},
    "optimisations_off": {"batch_before_map": EXACT, "cache": EXACT, "parallel_map": EXACT, "prefetch": EXACT},
    "endless": {"batch_before_map": EXACT, "cache": EXACT},
}
UNREPRODUCIBLE = {"float_then_flip"}  # parallel random functions: two constructions differ by themselves


def check(found: dict[str, dict[str, dict[str, object]]]) -> None:
    """Compare what was found with the table: acceptance, risk, and equality with a pipeline built a second time."""
    for name, rewrites in found.items():
        accepted = {rewrite: str(one["risk"]) for rewrite, one in rewrites.items() if "refused" not in one}
        assert accepted == {**ACCEPTED[name], "thread_pool": EXACT}, name
        for rewrite, one in rewrites.items():
            where = f"{rewrite} on {name}: {one}"
            if "refused" in one:
                assert str(one["refused"]).endswith(".") and len(str(one["refused"])) > 20, where
            elif one["risk"] == EXACT:
                assert one["bitwise"] and (one["equal"] is True or name in UNREPRODUCIBLE), where
