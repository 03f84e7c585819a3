"""Chat, Messages and Responses with the package `litellm`. Prints what came as JSON."""

import json
import os

import litellm

litellm.suppress_debug_info = True
hello = [{"role": "user", "content": "hello there"}]
url, key = os.environ["URL"], os.environ["KEY"]
told = {}
for name, model, base in (("openai", "openai/m", url + "/v1"), ("anthropic", "anthropic/m", url)):
    asked = {"model": model, "api_base": base, "api_key": key, "messages": hello, "max_tokens": 1000}
    told[name] = litellm.completion(**asked).choices[0].message.content
    chunks = litellm.completion(**asked, stream=True)
    told[name + "_stream"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    try:
        litellm.completion(**{**asked, "api_key": "nonsense"})
    except litellm.AuthenticationError as error:
        told[name + "_wrong_key"] = error.status_code
print(json.dumps(told))
