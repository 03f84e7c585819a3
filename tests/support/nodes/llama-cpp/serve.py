"""Runs llama.cpp's own server code with one model until its input ends.

Usage: serve.py FILE CONTEXT_TOKENS SLOTS [chat|embed|rank]. Prints `listening URL` once it answers.
"""

import socket
import sys

import xllamacpp

path, context, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
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
while sys.stdin.readline():
    pass
