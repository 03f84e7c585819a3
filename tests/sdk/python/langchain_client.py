"""`ChatOpenAI` of `langchain-openai`, by chat and by Responses. Prints what came as JSON."""

import json
import os

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Echo(BaseModel):
    """What was said."""

    echo: str


def look(fake: bool) -> str:
    """Looks."""
    return "sunny"


told = {}
for name, responses in (("chat", False), ("responses", True)):
    model = ChatOpenAI(
        base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], model="m", use_responses_api=responses, max_retries=0
    )
    told[name] = model.invoke("hello there").text
    told[name + "_stream"] = "".join(chunk.text for chunk in model.stream("hello there"))
    told[name + "_tool"] = [call["name"] for call in model.bind_tools([look]).invoke("hello there").tool_calls]
    told[name + "_structured"] = model.with_structured_output(Echo, method="json_schema").invoke("hello there").echo
print(json.dumps(told))
