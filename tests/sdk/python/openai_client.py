"""Chat, Responses, completions and embeddings with the package `openai`. Prints what came as JSON."""

import json
import os

from openai import APIError, AuthenticationError, NotFoundError, OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], max_retries=0)
wrong = OpenAI(base_url=os.environ["URL"] + "/v1", api_key="nonsense", max_retries=0)
hello = [{"role": "user", "content": "hello there"}]
parameters = {"type": "object", "properties": {"fake": {"type": "boolean"}}, "required": ["fake"], "additionalProperties": False}
look = {"type": "function", "name": "look", "parameters": parameters, "strict": True}


class Echo(BaseModel):
    echo: str


def raised(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError("nothing was raised")


told = {}
told["chat"] = client.chat.completions.create(model="m", messages=hello).choices[0].message.content
chunks = client.chat.completions.create(model="m", messages=hello, stream=True)
told["chat_stream"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
told["chat_parsed"] = client.chat.completions.parse(model="m", messages=hello, response_format=Echo).choices[0].message.parsed.echo

response = client.responses.create(model="m", input="hello there")
told["responses"] = [response.output_text, response.status, response.usage.output_tokens]
with client.responses.stream(model="m", input="hello there") as stream:
    kinds = [event.type for event in stream]
    told["responses_stream"] = [kinds[0], kinds[-1], stream.get_final_response().output_text]
told["responses_parsed"] = client.responses.parse(model="m", input="hello there", text_format=Echo).output_parsed.echo
called = client.responses.create(model="m", input="hello there", tools=[look]).output[0]
told["responses_tool"] = [called.name, json.loads(called.arguments)]
outputs = [{"role": "user", "content": "hello there"}, called, {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"}]
told["responses_after_tool"] = client.responses.create(model="m", input=outputs, tools=[look]).output_text

told["wrong_key"] = raised(AuthenticationError, lambda: wrong.responses.create(model="m", input="x")).code
told["no_model"] = raised(NotFoundError, lambda: client.responses.create(model="nothing", input="x")).code
told["cut_stream"] = raised(APIError, lambda: list(client.chat.completions.create(model="cut", messages=hello, stream=True))).code
events = list(client.responses.create(model="cut", input="x", stream=True))
told["cut_responses"] = [events[-1].type, events[-1].response.error.code]
left = client.chat.completions.create(model="slow", messages=hello, stream=True)
next(iter(left))
left.close()
print(json.dumps(told))
