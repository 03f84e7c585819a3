"""Runs llama.cpp's own server code with one model until its input ends.

Usage: serve.py FILE CONTEXT_TOKENS SLOTS. Prints `listening URL` once it answers.
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
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while sys.stdin.readline():
    pass
