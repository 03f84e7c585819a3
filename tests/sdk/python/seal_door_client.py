"""Three unchanged clients through the door of `penstock seal`, which takes any key. Prints what came as JSON."""

import json
import os

from anthropic import Anthropic
from ollama import Client as Ollama
from openai import NotFoundError, OpenAI

door = os.environ["DOOR"]
hello = [{"role": "user", "content": "hello there"}]
parameters = {"type": "object", "properties": {"fake": {"type": "boolean"}}}
function = {"type": "function", "function": {"name": "look", "description": "looks", "parameters": parameters}}

told = {}
openai = OpenAI(base_url=f"{door}/v1", api_key="unused", max_retries=0)
told["openai"] = openai.chat.completions.create(model="m-1", messages=hello).choices[0].message.content
chunks = openai.chat.completions.create(model="m-1", messages=hello, stream=True)
told["openai_stream"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
call = openai.chat.completions.create(model="m-1", messages=hello, tools=[function]).choices[0].message.tool_calls[0]
told["openai_tool"] = [call.function.name, json.loads(call.function.arguments)]
with openai.responses.stream(model="m-1", input="hello there") as stream:
    kinds = [event.type for event in stream]
    told["openai_responses_stream"] = [kinds[-1], stream.get_final_response().output_text]
try:
    openai.chat.completions.create(model="m-x", messages=hello)
except NotFoundError as error:
    told["openai_no_model"] = error.code

anthropic = Anthropic(base_url=door, api_key="unused", max_retries=0)
asked = {"model": "m-1", "max_tokens": 50, "messages": hello}
told["anthropic"] = anthropic.messages.create(**asked).content[0].text
with anthropic.messages.stream(**asked) as stream:
    told["anthropic_stream"] = stream.get_final_text()
tools = [{"name": "look", "description": "looks", "input_schema": parameters}]
with anthropic.messages.stream(**asked, tools=tools) as stream:
    block = next(b for b in stream.get_final_message().content if b.type == "tool_use")
    told["anthropic_tool_stream"] = [block.name, block.input]

ollama = Ollama(host=door)
told["ollama"] = ollama.chat(model="m-1", messages=hello).message.content
told["ollama_stream"] = "".join(part.message.content or "" for part in ollama.chat(model="m-1", messages=hello, stream=True))
parts = list(ollama.chat(model="m-1", messages=hello, tools=[function], stream=True))
used = [call.function for part in parts for call in part.message.tool_calls or []]
told["ollama_tool_stream"] = [used[0].name, dict(used[0].arguments)]
told["ollama_models"] = sorted(model.model for model in ollama.list().models)
print(json.dumps(told))
