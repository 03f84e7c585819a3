"""An agent of LangChain and a graph of LangGraph, by chat, Responses and Messages. Prints what came as JSON."""

import json
import os

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

url, key = os.environ["URL"], os.environ["KEY"]


def look(step: int) -> str:
    """Looks."""
    return f"result {step}"


def openai(responses):
    return ChatOpenAI(base_url=url + "/v1", api_key=key, model="m", use_responses_api=responses, max_retries=0)


def graph_of(model):
    bound = model.bind_tools([look])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def outcome(messages):
    return [sum(message.type == "ai" for message in messages), messages[-1].text]


begin = {"messages": [HumanMessage("begin")]}
models = {
    "chat": openai(False),
    "responses": openai(True),
    "messages": ChatAnthropic(base_url=url, api_key=key, model="m", max_retries=0, max_tokens=1000),
}
told = {}
for name, model in models.items():
    agent = create_agent(model, [look])
    told["agent_" + name] = outcome(agent.invoke(begin)["messages"])
    pieces = [chunk.text for chunk, _ in agent.stream(begin, stream_mode="messages") if chunk.type == "AIMessageChunk"]
    told["agent_" + name + "_stream"] = "".join(pieces)
    told["graph_" + name] = outcome(graph_of(model).invoke(begin)["messages"])
print(json.dumps(told))
