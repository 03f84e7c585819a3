"""Structured answers with instructor, by a tool and by JSON. Prints what came as JSON."""

import json
import os

import instructor
from openai import OpenAI
from pydantic import BaseModel


class look(BaseModel):
    """Named as the function that the node calls."""

    step: int


client = OpenAI(base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], max_retries=0)
begin = [{"role": "user", "content": "begin"}]
tools = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
told = {"tools": tools.chat.completions.create(model="m", messages=begin, response_model=look, max_retries=0).step}
parts = tools.chat.completions.create_partial(model="m", messages=begin, response_model=look, max_retries=0)
told["tools_stream"] = list(parts)[-1].step
print(json.dumps(told))
