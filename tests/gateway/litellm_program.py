"""Runs inside a container of the agent's image, beside the gateway: the LiteLLM that agents use, as applications do.

Prints one JSON object a scenario, `{"name", "said"}`; what a scenario raises is said by its type and status.
"""

import json
import os

import litellm
from litellm.utils import get_optional_params

litellm.suppress_debug_info = True
HOST = os.environ["GATEWAY"]
TOKENS = json.loads(os.environ["TOKENS"])
QUESTION = [{"role": "user", "content": "the file is /app/ledger.csv"}]
GOOD, BUSY, HANG, OTHER = "scripted-positive", "scripted-unavailable", "scripted-hang", "scripted-other"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}


def ask(trial, model=GOOD, provider="openai", retries=0, key=None, messages=QUESTION, timeout=30.0, **more):
    base = f"http://{HOST}:8080" + ("" if provider == "anthropic" else "/v1")
    return litellm.completion(
        model=f"{provider}/{model}", messages=messages, api_base=base, api_key=key or TOKENS[trial], timeout=timeout,
        max_retries=retries, max_tokens=64, **more,
    )  # fmt: skip


def said_by(answer):
    message = answer.choices[0].message
    called = [call.function.name for call in message.tool_calls or []]
    return [message.content, called, answer.usage.completion_tokens > 0]


def chat():
    return said_by(ask(0, tools=[TOOL]))


def chat_streamed():
    pieces = list(ask(0, tools=[TOOL], stream=True, stream_options={"include_usage": True}))
    return said_by(litellm.stream_chunk_builder(pieces, messages=QUESTION))


def chat_turn():
    """The tool's result goes back, with the message as LiteLLM makes it."""
    first = ask(0, tools=[TOOL]).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "a,b"}
    return said_by(ask(0, messages=[*QUESTION, first.model_dump(), result], tools=[TOOL]))[0]


def message():
    return said_by(ask(0, provider="anthropic", tools=[TOOL]))


def message_streamed():
    pieces = list(ask(0, provider="anthropic", tools=[TOOL], stream=True))
    return said_by(litellm.stream_chunk_builder(pieces, messages=QUESTION))


def responses():
    said = litellm.responses(
        model=f"openai/{GOOD}", input=QUESTION[0]["content"], api_base=f"http://{HOST}:8080/v1", api_key=TOKENS[0]
    )
    return [said.output[0].content[0].text, said.usage.output_tokens > 0]


def limit_names():
    """By which name the limit of an answer's tokens is sent, for each model."""
    names = json.loads(os.environ["LIMITED"])
    sent = (get_optional_params(model=name, custom_llm_provider="openai", max_tokens=5) for name in names)
    return [next(name for name, value in fields.items() if value == 5) for fields in sent]


def embeddings():
    said = litellm.embedding(
        model=f"openai/{GOOD}", input=["a", "bb"], api_base=f"http://{HOST}:8080/v1", api_key=TOKENS[0]
    )
    return len(said.data)


SCENARIOS = {
    **{act.__name__: act for act in (chat, chat_streamed, chat_turn, message, message_streamed, responses, embeddings)},
    "limit names": limit_names,
    "other model": lambda: ask(1, OTHER),
    "other key": lambda: ask(1, key="sk-of-nobody", retries=2),
    "busy, no retries": lambda: ask(1, BUSY),
    "busy, two retries": lambda: ask(2, BUSY, retries=2),
    "own time-out": lambda: ask(3, HANG, timeout=1.0),
    "time-out of the gateway": lambda: ask(3, HANG),
    "too many": lambda: [ask(1) for _ in range(10)],
}
for name, scenario in SCENARIOS.items():
    try:
        said = scenario()
    except Exception as error:
        said = [type(error).__name__, getattr(error, "status_code", None)]
    print(json.dumps({"name": name, "said": said}), flush=True)
