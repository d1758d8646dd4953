"""Whether a function predicts is told from its words, not from letters in them."""

from __future__ import annotations

import pytest

from outpace.timeline.gradients import is_prediction

TRAINS = (
    "train_step",
    "observe_batch",
    "preserved_step",
    "reserve",
    "predictor_train_step",
    "train_predictor",
    "inferred_grads",
    "__inference_train_step_530",
    "__inference_observe_batch_12",
    "predict_and_update",
    "fit_predictions",
    "one_step_on_iterator",
    "PjitFunction(loss_fn)",
    "PjitFunction(update)",
    "step",
    "",
)
PREDICTS = (
    "predict",
    "predict_step",
    "Predict",
    "__inference_predict_step_77",
    "__inference_serving_default_12",
    "serve",
    "infer",
    "PjitFunction(predict)",
    "PjitFunction(infer_batch)",
    "model.inference",
    "one_step_on_data",
    "__inference_one_step_on_data_distributed_90",
)


@pytest.mark.parametrize("name", TRAINS)
def test_training_is_no_prediction(name: str) -> None:
    assert not is_prediction(name)


@pytest.mark.parametrize("name", PREDICTS)
def test_prediction_is_told(name: str) -> None:
    assert is_prediction(name)
