"""The table of the APIs that are passed through: their paths, and how each one's answer is judged.

An API's path is the one behind `/v1` here and behind the endpoint's base URL there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from . import answers, completion
from .completion import Judgement
from .streams import Assembly, ChatStream, MessageStream, ResponseStream


@dataclass(frozen=True)
class Api:
    """`header` is the one in which its endpoints look for the key, and `prefix` what stands before it; `assembly` puts
    a stream together, None where the API has no streams."""

    name: str
    path: str
    header: str
    prefix: str
    judge: Callable[[bytes, frozenset[str]], Judgement]
    assembly: type[Assembly] | None = None


_OPENAI = ("Authorization", "Bearer ")
_ANTHROPIC = ("x-api-key", "")
CHAT = Api("chat-completions", "/chat/completions", *_OPENAI, completion.judge, ChatStream)
_TABLE = (
    CHAT,
    Api("responses", "/responses", *_OPENAI, answers.judge_response, ResponseStream),
    Api("embeddings", "/embeddings", *_OPENAI, answers.judge_embeddings),
    Api("messages", "/messages", *_ANTHROPIC, answers.judge_message, MessageStream),
    Api("count-tokens", "/messages/count_tokens", *_ANTHROPIC, answers.judge_count),
)
APIS = {api.name: api for api in _TABLE}
