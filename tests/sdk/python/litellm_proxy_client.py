"""LiteLLM's proxy before the gateway, asked in three dialects by a loop of tools. Prints what came as JSON."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import httpx
from openai import APIStatusError, OpenAI

url, key = os.environ["URL"], os.environ["KEY"]
proxy_key = "sk-of-the-proxy"
folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
config = {
    "model_list": [
        {"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": url + "/v1", "api_key": key}},
        {"model_name": "claude", "litellm_params": {"model": "anthropic/m", "api_base": url, "api_key": key}},
        {"model_name": "nothing", "litellm_params": {"model": "openai/nothing", "api_base": url + "/v1", "api_key": key}},
    ],
    "general_settings": {"master_key": proxy_key},
    "litellm_settings": {"num_retries": 0, "telemetry": False},
}
(folder / "config.json").write_text(json.dumps(config))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
base = f"http://127.0.0.1:{port}"
program = pathlib.Path(sys.executable).parent / "litellm"
command = [program, "--config", folder / "config.json", "--host", "127.0.0.1", "--port", str(port)]
environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_DOCS": "True"}
proxy = subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr)


def started():
    try:
        return urllib.request.urlopen(base + "/health/liveliness", timeout=5).status == 200
    except OSError:
        return False


parameters = {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]}
function = {"name": "look", "description": "Looks", "parameters": parameters}
chat_tool = {"type": "function", "function": function}
client = OpenAI(base_url=base + "/v1", api_key=proxy_key, max_retries=0)


def result(text):
    return f"result {json.loads(text)['step']}"


def chat(model, streamed):
    messages = [{"role": "user", "content": "begin"}]
    for turn in range(1, 9):
        asked = {"model": model, "messages": messages, "tools": [chat_tool]}
        if streamed:
            with client.chat.completions.stream(**asked) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**asked).choices[0].message
        if not message.tool_calls:
            return [turn, message.content]
        calls = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}} for c in message.tool_calls]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": result(c["function"]["arguments"])} for c in calls]
    raise AssertionError("the loop does not end")


def responses():
    items = [{"role": "user", "content": "begin"}]
    for turn in range(1, 9):
        response = client.responses.create(model="m", input=items, tools=[{"type": "function", "strict": False, **function}])
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return [turn, response.output_text]
        items += [{"type": "function_call", "call_id": c.call_id, "name": c.name, "arguments": c.arguments} for c in calls]
        items += [{"type": "function_call_output", "call_id": c.call_id, "output": result(c.arguments)} for c in calls]
    raise AssertionError("the loop does not end")


def messages(model):
    turns = [{"role": "user", "content": "begin"}]
    tool = {"name": "look", "description": "Looks", "input_schema": parameters}
    for turn in range(1, 9):
        asked = {"model": model, "max_tokens": 1000, "messages": turns, "tools": [tool]}
        answered = httpx.post(base + "/v1/messages", json=asked, headers={"x-api-key": proxy_key}, timeout=60)
        answered.raise_for_status()
        content = answered.json()["content"]
        calls = [block for block in content if block["type"] == "tool_use"]
        if not calls:
            return [turn, "".join(block["text"] for block in content)]
        turns.append({"role": "assistant", "content": calls})
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": f"result {c['input']['step']}"} for c in calls]
        turns.append({"role": "user", "content": results})
    raise AssertionError("the loop does not end")


def refused():
    try:
        client.chat.completions.create(model="nothing", messages=[{"role": "user", "content": "hi"}])
    except APIStatusError as error:
        return [error.status_code, "model_not_found" in str(error) or "No model" in str(error)]


try:
    until = time.monotonic() + 240
    while not started():
        if proxy.poll() is not None or time.monotonic() > until:
            raise AssertionError("the proxy did not start")
        time.sleep(0.5)
    told = {
        "chat": chat("m", False),
        "chat_stream": chat("m", True),
        "anthropic": chat("claude", False),
        "anthropic_stream": chat("claude", True),
        "responses": responses(),
        "messages": messages("claude"),
        "no_model": refused(),
    }
finally:
    proxy.terminate()
    proxy.wait()
print(json.dumps(told))
