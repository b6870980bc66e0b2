"""A rank whose tallies are read LAG steps late, as the environment says. Run in place of `trainer`."""

import os
import sys
from dataclasses import replace

from trainer import __main__
from trainer.pipeline import PIPELINES

if __name__ == "__main__":
    for device, pipeline in PIPELINES.items():
        PIPELINES[device] = replace(pipeline, lag=int(os.environ["LAG"]))
    __main__.main(sys.argv[1])
