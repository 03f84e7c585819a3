"""A tool-calling agent of smolagents. Prints what came as JSON."""

import contextlib
import json
import os
import sys

from smolagents import LogLevel, OpenAIServerModel, ToolCallingAgent, tool


@tool
def look(step: int) -> str:
    """Looks.

    Args:
        step: Which one.
    """
    return f"result {step}"


def outcome(streamed):
    model = OpenAIServerModel(model_id="m", api_base=os.environ["URL"] + "/v1", api_key=os.environ["KEY"])
    agent = ToolCallingAgent(tools=[look], model=model, stream_outputs=streamed, verbosity_level=LogLevel.OFF)
    with contextlib.redirect_stdout(sys.stderr):
        result = agent.run("begin", return_full_result=True)
    return [sum("model_output_message" in step for step in result.steps), result.output]


told = {"whole": outcome(False), "streamed": outcome(True)}
print(json.dumps(told))
