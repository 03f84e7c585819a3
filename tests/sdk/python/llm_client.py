"""The program `llm` with a model of its own list of OpenAI-compatible models. Prints what came as JSON."""

import json
import os
import pathlib
import subprocess
import sys

folder = pathlib.Path(os.environ["LLM_USER_PATH"])
folder.mkdir(parents=True, exist_ok=True)
entry = f"""- model_id: penstock
  model_name: m
  api_base: {os.environ["URL"]}/v1
  api_key_name: penstock
"""
(folder / "extra-openai-models.yaml").write_text(entry)
(folder / "keys.json").write_text(json.dumps({"penstock": os.environ["KEY"]}))


def llm(*arguments):
    command = [sys.executable, "-m", "llm", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


told = {
    "streamed": llm("-m", "penstock", "hello there"),
    "whole": llm("-m", "penstock", "--no-stream", "hello there"),
}
print(json.dumps(told))
