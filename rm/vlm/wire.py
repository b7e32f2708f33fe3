"""Between conversations and the chat-completions wire: plain data in, plain data out, nothing is sent here.

The wire is the one of OpenAI's chat completions, which vLLM, SGLang, `transformers serve` and most vendors speak.
Reasoning that a server tells apart comes as `reasoning_content` or, in newer servers, `reasoning`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from gnomon.hashing import stable_hash
from gnomon.images import content_hash
from gnomon.records import Status
from rm.service import encode_picture
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Message, Reply, Usage, split_thinking

_TOKENS_PER_PRICE = 1_000_000
_LEAST_MASS = 1e-9  # rounding may leave nothing, or less, beside the listed tokens

Body = dict[str, Any]


@dataclass(frozen=True)
class Prices:
    """What tokens cost, in US dollars per million."""

    prompt: float
    completion: float


def data_url(image: Image.Image) -> str:
    """Return a picture as a data URL of an RGB PNG.

    Raises:
        ValueError: for pixels that have no 8-bit RGB form.
    """
    return f"data:image/png;base64,{encode_picture(image)}"


def conversation_hash(conversation: Conversation, hash_of: Callable[[Image.Image], str] = content_hash) -> str:
    """Return a sha256 (hex) of all roles, texts and pixels in their order."""
    turns = [
        [
            message.role,
            [["text", part] if isinstance(part, str) else ["image", hash_of(part)] for part in message.content],
        ]
        for message in conversation
    ]
    return stable_hash(turns)


def chat_messages(conversation: Conversation, url_of: Callable[[Image.Image], str] = data_url) -> list[Body]:
    """Return the `messages` of a request. A lone text is sent as a string, which every server takes."""
    return [{"role": message.role, "content": _content(message, url_of)} for message in conversation]


def _content(message: Message, url_of: Callable[[Image.Image], str]) -> str | list[Body]:
    if len(message.content) == 1 and isinstance(message.content[0], str):
        return message.content[0]
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": url_of(part)}}
        for part in message.content
    ]


def reply_fields(parameters: GenerationParameters, *, thinking_switch: bool) -> Body:
    """Return what a request for a reply says besides model and messages."""
    fields: Body = {
        "max_tokens": parameters.max_tokens,
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
    }
    if parameters.seed is not None:
        fields["seed"] = parameters.seed
    if parameters.schema is not None:
        described = {"name": "reply", "schema": parameters.schema, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": described}
    return fields | (_template(parameters.thinking) if thinking_switch else {})


def choice_fields(top_logprobs: int, *, thinking_switch: bool) -> Body:
    """Return what a request for the probabilities of the first token says besides model and messages."""
    fields: Body = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": top_logprobs}
    return fields | (_template(False) if thinking_switch else {})


def _template(thinking: bool) -> Body:
    return {"chat_template_kwargs": {"enable_thinking": thinking}}


def adjusted(fields: Body, extra: Mapping[str, Any]) -> Body:
    """Return `fields` with those of `extra` put over them; a None takes a field away."""
    return {name: value for name, value in {**fields, **extra}.items() if value is not None}


def read_usage(answer: Body, prices: Prices | None) -> Usage | None:
    """Return the tokens that a server counted and what they cost; None where it counted none."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = (usage.get(f"{kind}_tokens") or 0 for kind in ("prompt", "completion"))
    cost = None if prices is None else (prompt * prices.prompt + completion * prices.completion) / _TOKENS_PER_PRICE
    return Usage(prompt, completion, cost)


def read_reply(answer: Body, prices: Prices | None = None) -> Reply:
    """Return what a model said.

    "length" as `finish_reason` is a truncated reply; "content_filter", or a text under `refusal`, a refused one. A
    reply without any text is "ok" with an empty text: what that means is for whoever asked to say.

    Args:
        answer: of the server, with at least one choice that holds a message.
        prices: of its tokens, where known.
    """
    choice = answer["choices"][0]
    message, finish_reason = choice["message"], choice.get("finish_reason")
    text, thinking = _text(message.get("content")), message.get("reasoning_content") or message.get("reasoning") or ""
    if not thinking:
        thinking, text = split_thinking(text)
    status, error = _ending(finish_reason, message.get("refusal"))
    usage = read_usage(answer, prices)
    return Reply(text.strip(), status, finish_reason, str(thinking).strip(), error, usage)


def _text(content: object) -> str:
    """Some servers answer with a list of parts, as they are asked."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _ending(finish_reason: object, refusal: object) -> tuple[Status, str | None]:
    if refusal or finish_reason == "content_filter":
        return "refused", str(refusal or "withheld by the server's content filter")
    if finish_reason == "length":
        return "truncated", "the longest reply was reached; raise max_tokens"
    return "ok", None


def served_by(answer: Body) -> str | None:
    """Return the server's own word for the model that answered, with its system fingerprint; None where it gives none.

    One name may be served by another version from one day to the next, and this is all that tells them apart.
    """
    model, system = answer.get("model"), answer.get("system_fingerprint")
    return " ".join(str(part) for part in (model, system) if part) or None


def read_choice_scores(answer: Body, choices: Sequence[str], prices: Prices | None = None) -> ChoiceScores:
    """Return how likely each choice is, from the listed tokens in the reply's first place.

    A token counts for the choice that it is, or that alone begins with it; blanks before it are not looked at, and
    several such tokens are added up. A choice without a token is given the most that the list leaves room for: no more
    than the least likely listed token, and no more than all that is not listed.

    No number is made up: without a list the status is "api_error", and so it is where a token begins two choices
    ("1" where "1" and "10" are asked for). Where no choice is listed, the model begins with something else, such as
    thinking: "parse_error".

    Args:
        answer: of the server, with at least one choice that holds a message.
        choices: different texts.
        prices: of its tokens, where known.
    """
    usage = read_usage(answer, prices)
    message = answer["choices"][0]["message"]
    status, error = _ending(answer["choices"][0].get("finish_reason"), message.get("refusal"))
    if status == "refused":
        return ChoiceScores(None, status, error, usage)
    listed = _listed_tokens(answer)
    if not listed:
        return ChoiceScores(None, "api_error", "the server gives no logprobs; ask for replies instead", usage)
    masses: dict[str, float] = {}
    for token, probability in listed:
        starts = [choice for choice in choices if token and choice.startswith(token)]
        if len(starts) > 1:
            reason = f"the token {token!r} begins the choices {starts}; choose answers that differ from the first token"
            return ChoiceScores(None, "api_error", reason, usage)
        for choice in starts:
            masses[choice] = masses.get(choice, 0.0) + probability
    if not masses:
        shown = ", ".join(repr(token) for token, _ in listed[:3])
        reason = f"none of the choices is among the {len(listed)} likeliest first tokens ({shown}, ...)"
        return ChoiceScores(None, "parse_error", reason, usage)
    rest = max(_LEAST_MASS, 1.0 - math.fsum(probability for _, probability in listed))
    bound = min(rest, min(probability for _, probability in listed))
    logprobs = {choice: math.log(min(1.0, masses.get(choice, bound))) for choice in choices}
    return ChoiceScores(logprobs, usage=usage)


def _listed_tokens(answer: Body) -> list[tuple[str, float]]:
    """Return the listed first tokens without blanks before them, and their probabilities, above 0."""
    try:
        entries = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        pairs = [(str(entry["token"]).lstrip(), math.exp(float(entry["logprob"]))) for entry in entries]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return []
    return [(token, probability) for token, probability in pairs if probability > 0.0]
