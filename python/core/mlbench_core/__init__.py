"""The import paths of MLBench's mlbench_core, for scripts that were written for it. What they measure goes through
mlbench's own client (the package mlbench). Only the modules below a folder `pytorch` import PyTorch."""
