"""Messages with the package `anthropic`. Prints what came as JSON."""

import json
import os

from anthropic import Anthropic, APIError, AuthenticationError, NotFoundError

client = Anthropic(base_url=os.environ["URL"], api_key=os.environ["KEY"], max_retries=0)
wrong = Anthropic(base_url=os.environ["URL"], api_key="nonsense", max_retries=0)
hello = {"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "hello there"}]}
schema = {"type": "object", "properties": {"fake": {"type": "boolean"}}}
look = {"name": "look", "input_schema": schema}


def raised(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError("nothing was raised")


told = {}
message = client.messages.create(**hello)
told["whole"] = [message.content[0].text, message.stop_reason, message.usage.output_tokens]
with client.messages.stream(**hello) as stream:
    told["streamed"] = ["".join(stream.text_stream), stream.get_final_message().stop_reason]
called = client.messages.create(**hello, tools=[look])
told["tool"] = [called.stop_reason, called.content[0].name, called.content[0].input]
result = {"type": "tool_result", "tool_use_id": called.content[0].id, "content": "sunny"}
after = hello["messages"] + [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
told["after_tool"] = client.messages.create(**{**hello, "messages": after}, tools=[look]).content[0].text
told["structured"] = json.loads(
    client.messages.create(**hello, extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}}).content[0].text
)
told["count"] = client.messages.count_tokens(model="m", messages=hello["messages"]).input_tokens > 0
told["models"] = [model.id for model in client.models.list()]
told["wrong_key"] = raised(AuthenticationError, lambda: wrong.messages.create(**hello)).status_code
told["no_model"] = raised(NotFoundError, lambda: client.messages.create(**{**hello, "model": "nothing"})).status_code


def cut():
    with client.messages.stream(**{**hello, "model": "cut"}) as broken:
        return list(broken)


told["cut_stream"] = raised(APIError, cut) is not None
with client.messages.stream(**{**hello, "model": "slow"}) as left:
    next(iter(left.text_stream))
print(json.dumps(told))
