"""llama.cpp's server with one model: `real_model.py` runs it as a process, which ends with its standard input."""

import os
import sys

import xllamacpp

port, context, slots, reply, ping = map(int, sys.argv[2:])
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.hostnames = ["127.0.0.1"]
parameters.port = port
parameters.n_ctx = context * slots
parameters.n_parallel = slots
parameters.n_predict = reply
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
# Between batches it sees that nobody waits for a prompt, by a sign of life that cannot be sent.
parameters.n_batch = parameters.n_ubatch = 64
parameters.sse_ping_interval = ping
parameters.cache_ram_mib = 0
parameters.endpoint_metrics = True
parameters.warmup = False
server = xllamacpp.Server(parameters)
sys.stdin.read()
os._exit(0)
