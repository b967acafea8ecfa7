"""Runs inside a container beside the gateway: the OpenAI and Anthropic SDKs as an application uses them.

Prints one JSON object a scenario, `{"name", "said"}`; what a scenario raises is said by its type and status.
"""

import json
import os

import anthropic
import openai

HOST = os.environ["GATEWAY"]
TOKENS = json.loads(os.environ["TOKENS"])
QUESTION = [{"role": "user", "content": "the file is /app/ledger.csv"}]
GOOD, BUSY, HANG, OTHER = "scripted-positive", "scripted-unavailable", "scripted-hang", "scripted-other"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
CHAT_TOOL = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
RESPONSE_TOOL = {"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False}
MESSAGE_TOOL = {"name": "bash", "input_schema": SCHEMA}


def of_openai(trial, retries=0, timeout=30.0, key=None):
    return openai.OpenAI(
        base_url=f"http://{HOST}:8080/v1", api_key=key or TOKENS[trial], max_retries=retries, timeout=timeout
    )


def of_anthropic(trial, retries=0, timeout=30.0, key=None):
    return anthropic.Anthropic(
        base_url=f"http://{HOST}:8080", api_key=key or TOKENS[trial], max_retries=retries, timeout=timeout
    )


def chat():
    said = of_openai(0).chat.completions.create(model=GOOD, messages=QUESTION, tools=[CHAT_TOOL], max_tokens=64)
    message = said.choices[0].message
    return [message.content, message.tool_calls[0].function.name, said.usage.total_tokens > 0]


def chat_streamed():
    pieces = of_openai(0).chat.completions.create(
        model=GOOD, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    words, arguments, usage = "", "", None
    for piece in pieces:
        usage = piece.usage or usage
        for choice in piece.choices:
            words += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                arguments += call.function.arguments or ""
    return [words, json.loads(arguments)["command"], usage.total_tokens > 0]


def chat_turn():
    """The tool's result goes back, as an agent's second request."""
    client = of_openai(0)
    first = client.chat.completions.create(model=GOOD, messages=QUESTION, tools=[CHAT_TOOL]).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "a,b"}
    second = client.chat.completions.create(model=GOOD, messages=[*QUESTION, first, result], tools=[CHAT_TOOL])
    return [second.choices[0].message.content]


def responses():
    said = of_openai(0).responses.create(model=GOOD, input=QUESTION[0]["content"], tools=[RESPONSE_TOOL])
    return [said.output_text, said.output[1].name, said.usage.output_tokens > 0]


def responses_streamed():
    with of_openai(0).responses.stream(model=GOOD, input=QUESTION[0]["content"], tools=[RESPONSE_TOOL]) as events:
        words = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        final = events.get_final_response()
    return [words, final.output_text == words, json.loads(final.output[1].arguments)["command"]]


def embeddings():
    client = of_openai(0)
    default = client.embeddings.create(model=GOOD, input=["a", "bb"])
    plain = client.embeddings.create(model=GOOD, input=["a", "bb"], encoding_format="float")
    return [len(default.data), default.data[0].embedding == plain.data[0].embedding]


def openai_models():
    client = of_openai(0)
    return [[model.id for model in client.models.list()], client.models.retrieve(GOOD).id]


def message():
    said = of_anthropic(1).messages.create(model=GOOD, messages=QUESTION, tools=[MESSAGE_TOOL], max_tokens=64)
    return [said.content[0].text, said.content[1].name, said.stop_reason, said.usage.output_tokens > 0]


def message_streamed():
    with of_anthropic(1).messages.stream(model=GOOD, messages=QUESTION, tools=[MESSAGE_TOOL], max_tokens=64) as stream:
        words = "".join(stream.text_stream)
        final = stream.get_final_message()
    return [words, final.content[1].input["command"], final.stop_reason]


def message_turn():
    client = of_anthropic(1)
    first = client.messages.create(model=GOOD, messages=QUESTION, tools=[MESSAGE_TOOL], max_tokens=64)
    result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "a,b"}
    turn = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(model=GOOD, messages=QUESTION + turn, tools=[MESSAGE_TOOL], max_tokens=64)
    return [second.content[0].text]


def by_x_api_key():
    client = anthropic.Anthropic(
        base_url=f"http://{HOST}:8080", api_key="sk-of-nobody", default_headers={"x-api-key": TOKENS[1]}
    )
    return [client.messages.create(model="anthropic/" + GOOD, messages=QUESTION, max_tokens=64).content[0].text]


def count_tokens():
    return [of_anthropic(1).messages.count_tokens(model=GOOD, messages=QUESTION).input_tokens > 0]


def anthropic_models():
    return [[model.id for model in of_anthropic(1).models.list()]]


def ask(client, model):
    if isinstance(client, openai.OpenAI):
        return client.chat.completions.create(model=model, messages=QUESTION)
    return client.messages.create(model=model, messages=QUESTION, max_tokens=64)


def scenarios():
    yield from (
        (scenario.__name__, scenario)
        for scenario in (
            chat, chat_streamed, chat_turn, responses, responses_streamed, embeddings, openai_models,
            message, message_streamed, message_turn, by_x_api_key, count_tokens, anthropic_models,
        )
    )  # fmt: skip
    for offset, make in ((2, of_openai), (5, of_anthropic)):
        name = make.__name__.removeprefix("of_")
        yield f"{name} other model", lambda make=make, offset=offset: ask(make(offset), OTHER)
        yield f"{name} other key", lambda make=make, offset=offset: ask(make(offset, 2, key="sk-of-nobody"), GOOD)
        yield f"{name} busy, no retries", lambda make=make, offset=offset: ask(make(offset), BUSY)
        yield f"{name} busy, two retries", lambda make=make, offset=offset: ask(make(offset + 1, 2), BUSY)
        yield f"{name} own time-out", lambda make=make, offset=offset: ask(make(offset + 2, timeout=0.5), HANG)
        yield f"{name} time-out of the gateway", lambda make=make, offset=offset: ask(make(offset + 2), HANG)
        yield f"{name} too many", lambda make=make, offset=offset: [ask(make(offset), GOOD) for _ in range(10)]


for name, scenario in scenarios():
    try:
        said = scenario()
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        said = [type(error).__name__, error.status_code]
    except (openai.APIError, anthropic.APIError) as error:
        said = [type(error).__name__]
    print(json.dumps({"name": name, "said": said}), flush=True)
