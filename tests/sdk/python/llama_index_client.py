"""An agent of LlamaIndex. Prints what came as JSON."""

import asyncio
import json
import os

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.llms.openai_like import OpenAILike


def look(step: int) -> str:
    """Looks."""
    return f"result {step}"


async def outcome(streaming):
    llm = OpenAILike(
        model="m",
        api_base=os.environ["URL"] + "/v1",
        api_key=os.environ["KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )
    handler = FunctionAgent(tools=[look], llm=llm, streaming=streaming).run("begin")
    turns = 0
    async for event in handler.stream_events():
        turns += isinstance(event, AgentOutput)
    return [turns, str(await handler)]


async def main():
    print(json.dumps({"whole": await outcome(False), "streamed": await outcome(True)}))


asyncio.run(main())
