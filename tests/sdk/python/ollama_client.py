"""Chat and embeddings with the package `ollama`, on the listener of Ollama's interface. Prints what came as JSON."""

import json
import os

from ollama import Client, ResponseError

client = Client(host=os.environ["OLLAMA_URL"], headers={"authorization": "Bearer " + os.environ["KEY"]})
hello = [{"role": "user", "content": "hello there"}]
told = {}
told["whole"] = client.chat(model="m", messages=hello).message.content
told["streamed"] = "".join(part.message.content or "" for part in client.chat(model="m", messages=hello, stream=True))
told["generated"] = client.generate(model="m", prompt="hello there").response
told["models"] = sorted(model.model for model in client.list().models)
try:
    client.chat(model="nothing", messages=hello)
except ResponseError as error:
    told["no_model"] = error.status_code
print(json.dumps(told))
