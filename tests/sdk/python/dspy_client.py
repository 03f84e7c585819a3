"""An agent of DSPy that reasons and acts, by a tool, until it ends. Prints what came as JSON."""

import json
import os

import dspy

model = dspy.LM("openai/m", api_base=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], cache=False, num_retries=0)
dspy.configure(lm=model)


def look(step: int) -> str:
    """Looks."""
    return f"result {step}"


agent = dspy.ReAct("question -> answer", tools=[look])
answer = agent(question="begin").answer
wrong = dspy.LM("openai/m", api_base=os.environ["URL"] + "/v1", api_key="nonsense", cache=False, num_retries=0)
try:
    wrong("begin")
    refused = None
except Exception as error:
    refused = type(error).__name__
print(json.dumps({"react": [len(model.history), answer], "wrong_key": refused}))
