"""Sealed chat with EHBP's own client for Python, alone and under the package `openai`. Prints what came as JSON."""

import base64
import json
import os
import sys

import httpx
from ehbp import Client, EHBPTransport, KeyConfigMismatchError, ServerIdentity
from openai import OpenAI

gateway, key = os.environ["GATEWAY"], os.environ["KEY"]
node, other = os.environ["NODE_ID"], os.environ["OTHER_NODE_ID"]
headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "x-svc-model": "m-1"}
hello = [{"role": "user", "content": "hello there"}]
parameters = {"type": "object", "properties": {"fake": {"type": "boolean"}}}
look = {"type": "function", "function": {"name": "look", "parameters": parameters}}


def base(node):
    return f"{gateway}/v1/sealed/nodes/{node}"


def config(node):
    return httpx.get(f"{base(node)}/.well-known/hpke-keys", headers=headers).content


def asked(**more):
    return {"model": "m-1", "messages": hello, **more}


path = f"/v1/sealed/nodes/{node}/chat/completions"

# Seals for the key that CONFIG has from before, and for the present one where the node says that it has another.
if "CONFIG" in os.environ:
    replaced = False
    try:
        answer = Client.with_config(gateway, base64.b64decode(os.environ["CONFIG"])).post(path, json_body=asked(), headers=headers)
    except KeyConfigMismatchError:
        replaced = True
        answer = Client.with_config(gateway, config(node)).post(path, json_body=asked(), headers=headers)
    print(json.dumps({"replaced": replaced, "whole": answer.json()["choices"][0]["message"]["content"]}))
    sys.exit(0)

client = Client.with_config(gateway, config(node))

if os.environ.get("LEAVE") == "1":
    with client.stream("POST", path, json_body=asked(stream=True), headers=headers) as response:
        first = next(iter(response))
    print(json.dumps({"first": first[:5].decode()}))
    sys.exit(0)

told = {}
told["whole"] = client.post(path, json_body=asked(), headers=headers).json()["choices"][0]["message"]["content"]
with client.stream("POST", path, json_body=asked(stream=True), headers=headers) as response:
    told["streamed"] = b"".join(response).endswith(b"data: [DONE]\n\n")
refused = client.post(path, json_body={"model": "m-1", "messages": 3}, headers=headers)
told["refused"] = [refused.status_code, refused.json()["error"]["code"]]
try:
    Client.with_config(gateway, config(other)).post(path, json_body=asked(), headers=headers)
    told["wrong_key"] = False
except KeyConfigMismatchError:
    told["wrong_key"] = True

transport = EHBPTransport(ServerIdentity.unmarshal_public_config(config(node)))
openai = OpenAI(
    base_url=base(node),
    api_key=key,
    max_retries=0,
    default_headers={"x-svc-model": "m-1"},
    http_client=httpx.Client(transport=transport),
)
told["openai"] = openai.chat.completions.create(**asked()).choices[0].message.content
chunks = openai.chat.completions.create(**asked(tools=[look], stream=True))
calls = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices and c.choices[0].delta.tool_calls]
told["openai_tool_stream"] = [calls[0].function.name, json.loads("".join(c.function.arguments or "" for c in calls))]
print(json.dumps(told))
