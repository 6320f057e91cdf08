"""Compares what TensorBoard reads in FOLDER/logs with the archive FOLDER/tb-2.zip of the same run."""

import json
import os
import sys
import zipfile

from tensorboard.backend.event_processing import event_accumulator


def scalars_of(folder):
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    return {tag: reader.Scalars(tag) for tag in reader.Tags()["scalars"]}


def main():
    folder = sys.argv[1]
    archive = zipfile.ZipFile(os.path.join(folder, "tb-2.zip"))
    record = json.loads(archive.read("run.json"))
    assert sorted(os.listdir(os.path.join(folder, "logs"))) == ["rank-0", "rank-1"]
    for rank in range(2):
        scalars = scalars_of(os.path.join(folder, "logs", f"rank-{rank}"))
        # Each step of the run is in one record, and a record's last step is its point's.
        assert scalars["step_s"][-1].step == 199, scalars["step_s"][-1]
        # Means over records of some steps: their range holds the mean of the epochs.
        losses = [one.value for one in scalars["train_loss"]]
        dashboard = json.loads(archive.read(f"result_train_loss @ {rank}.json"))
        assert min(losses) <= float(dashboard[0]["value"]) <= max(losses), (losses, dashboard[0])
        if rank == 0:
            metric = record["goal"]["metric"]
            read = [(one.step, one.value) for one in scalars[f"val_global_{metric}"]]
            kept = [(one["step"], one["metrics"][metric]) for one in record["evaluations"] if one["split"] == "test"]
            assert kept and len(read) == len(kept), (read, kept)
            for (step, value), (kept_step, kept_value) in zip(read, kept):
                assert step == kept_step and abs(value - kept_value) <= 1e-5 * abs(kept_value), (read, kept)
    print("TensorBoard read", {tag: len(series) for tag, series in scalars.items()})


if __name__ == "__main__":
    main()
