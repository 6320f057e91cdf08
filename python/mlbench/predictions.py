"""The predictions of a custom run, by which `mlbench evaluate NAME-K` checks what the script claimed."""

import json
import os

from mlbench.metrics import _plain

FILE = "predictions.jsonl"


def write_predictions(predictions, indices=None, environment=None):
    """Leaves a prediction for each sample of the task's evaluation set in the run's folder, in place of earlier ones.

    `predictions` are classes, or a row of scores each (of a binary task with one output: the probability of class 1):
    a tensor, an array or a list, in the set's order. `indices` are their places in the set, where they have another
    order. One rank calls it, with the predictions for the whole set: those of the model that reached the goal, else of
    the last evaluation. Returns the file's path; None where no run has started the script.
    """
    rows = list(_plain(predictions))
    places = list(range(len(rows))) if indices is None else list(_plain(indices))
    if len(places) != len(rows):
        raise ValueError("there are %d predictions and %d indices; expected one index each" % (len(rows), len(places)))
    lines = [json.dumps(_line(place, row), allow_nan=False) + "\n" for place, row in zip(places, rows)]
    run_dir = (os.environ if environment is None else environment).get("MLBENCH_RUN_DIR", "")
    if not run_dir:
        return None
    path = os.path.join(run_dir, FILE)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(path + ".new", path)
    return path


def _line(place, prediction):
    if isinstance(prediction, list):
        return {"index": int(place), "scores": [float(score) for score in prediction]}
    if prediction != int(prediction):
        raise ValueError("the prediction for sample %d is %r; expected a class, or a list of scores" % (place, prediction))
    return {"index": int(place), "label": int(prediction)}
