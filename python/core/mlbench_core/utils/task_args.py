"""The command line of MLBench's tasks."""

import argparse
import os


def task_main(main_func, uid="allreduce"):
    """Reads the command line and calls main_func with `run_id`, `dataset_dir`, `ckpt_run_dir`, `output_dir`, `rank`,
    `backend`, `hosts`, `validation_only`, `gpu` and `light_target`.

    `uid` names the script's own folder below those of --root-checkpoint and --root-output. Under `mlbench run` these
    lie in the run's folder unless they are given, and the data are those of MLBENCH_DATA_DIR.
    """
    given = _parser().parse_args()
    ckpt_run_dir = os.path.join(given.root_checkpoint, uid)
    output_dir = os.path.join(given.root_output, uid)
    for folder in (ckpt_run_dir, output_dir):
        os.makedirs(folder, exist_ok=True)
    main_func(
        run_id=given.run_id,
        dataset_dir=given.root_dataset,
        ckpt_run_dir=ckpt_run_dir,
        output_dir=output_dir,
        rank=given.rank,
        backend=given.backend,
        hosts=given.hosts,
        validation_only=given.validation_only,
        gpu=given.gpu,
        light_target=given.light,
    )


def _parser():
    run_dir = os.environ.get("MLBENCH_RUN_DIR", "")
    below = os.path.join(run_dir, "script") if run_dir else "/"
    form = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description="One rank of a task", formatter_class=form)
    option = parser.add_argument
    option("--run_id", default=os.environ.get("MLBENCH_RUN_ID", "1"), help="the id of the run")
    option("--root-dataset", default=os.environ.get("MLBENCH_DATA_DIR", "/datasets"), help="the folder of data")
    option("--root-checkpoint", default=os.path.join(below, "checkpoint"), help="the folder of checkpoints")
    option("--root-output", default=os.path.join(below, "output"), help="the folder of logs and results")
    option("--validation_only", action="store_true", help="evaluate the checkpoints, train nothing")
    option("--gpu", action="store_true", help="train on a GPU")
    option("--light", action="store_true", help="train to the light goal")
    option("--rank", type=int, default=int(os.environ.get("RANK", "0")), help="the rank of this process")
    option("--backend", default="mpi", help="the back end of torch.distributed")
    option("--hosts", help="one host per rank, comma-separated")
    return parser
