"""One thread a process: the suite runs in as many processes as there are cores, and they would only wait."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports PyTorch
