"""Runs llama.cpp's own server code with one model until its input ends, or, where a port is given, until it is killed.

Usage: serve.py FILE CONTEXT_TOKENS SLOTS [chat|embed|rank [PORT]]. Prints `listening URL` once it answers. What follows the port
is for those who look at the list of processes.
"""

import signal
import socket
import sys

import xllamacpp

path, context, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
given = int(sys.argv[5]) if len(sys.argv) > 5 else None
with socket.socket() as free:
    free.bind(("127.0.0.1", given or 0))
    port = free.getsockname()[1]

params = xllamacpp.CommonParams()
params.model.path = path
params.n_ctx = context * slots
params.n_parallel = slots
params.hostnames = ["127.0.0.1"]
params.port = port
params.cpuparams.n_threads = 1
params.warmup = False
purpose = sys.argv[4] if len(sys.argv) > 4 else "chat"
if purpose != "chat":
    pooling = xllamacpp.llama_pooling_type
    params.embedding = True
    params.pooling_type = (
        pooling.LLAMA_POOLING_TYPE_RANK if purpose == "rank" else pooling.LLAMA_POOLING_TYPE_MEAN
    )
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while given is not None:
    signal.pause()
while sys.stdin.readline():
    pass
