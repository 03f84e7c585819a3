"""An agent of Haystack. Prints what came as JSON."""

import json
import os

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret

parameters = {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]}
look = Tool(name="look", description="Looks.", parameters=parameters, function=lambda step: f"result {step}")


def outcome(streaming):
    key = Secret.from_token(os.environ["KEY"])
    generator = OpenAIChatGenerator(api_key=key, model="m", api_base_url=os.environ["URL"] + "/v1", max_retries=0)
    agent = Agent(chat_generator=generator, tools=[look], streaming_callback=streaming)
    messages = agent.run(messages=[ChatMessage.from_user("begin")])["messages"]
    return [sum(message.role.value == "assistant" for message in messages), messages[-1].text]


told = {"whole": outcome(None), "streamed": outcome(lambda chunk: None)}
print(json.dumps(told))
