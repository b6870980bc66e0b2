"""A rank on a CPU that works as on a GPU: reads tallies late, and copies batches ahead. Run in place of `trainer`."""

import sys
from dataclasses import replace

from trainer import __main__
from trainer.pipeline import PIPELINES

if __name__ == "__main__":
    PIPELINES["cpu"] = replace(PIPELINES["gpu"], batches_on="CPU:0")
    __main__.main(sys.argv[1])
