"""An agent of pydantic-ai, by chat, Responses and Messages. Prints what came as JSON."""

import asyncio
import json
import os

from pydantic_ai import Agent, ModelHTTPError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url, key = os.environ["URL"], os.environ["KEY"]


def look(step: int) -> str:
    """Looks."""
    return f"result {step}"


async def main():
    openai = OpenAIProvider(base_url=url + "/v1", api_key=key)
    models = {
        "chat": OpenAIChatModel("m", provider=openai),
        "responses": OpenAIResponsesModel("m", provider=openai),
        "messages": AnthropicModel("m", provider=AnthropicProvider(base_url=url, api_key=key)),
    }
    told = {}
    for name, model in models.items():
        agent = Agent(model, tools=[look])
        run = await agent.run("begin")
        told[name] = [run.usage.requests, run.output]
        async with agent.run_stream("begin") as stream:
            told[name + "_stream"] = await stream.get_output()
    try:
        await Agent(OpenAIChatModel("nothing", provider=openai)).run("begin")
    except ModelHTTPError as error:
        told["no_model"] = error.status_code
    print(json.dumps(told))


asyncio.run(main())
