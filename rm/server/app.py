"""The HTTP application: `/v1/score`, `/v1/chat/completions`, `/health` and `/metrics`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from rm.server.batching import MicroBatcher, QueueFullError
from rm.server.chat import PATH as CHAT_PATH
from rm.server.chat import Answer, ChatModel, ChatRequest, Question, answer, completion, failed
from rm.server.limits import BodyLimit, Limits
from rm.server.metrics import ServerMetrics
from rm.server.scoring import Outcome, Picture, PictureScorer, checked_scores
from rm.service import PATH, ScoreItem, ScoreRequest, ScoreResponse, ScoreResult, decode_picture

RETRY_AFTER_SECONDS = "1"


def create_app(
    scorer: PictureScorer | None,
    *,
    chat: ChatModel | None = None,
    limits: Limits = Limits(),  # noqa: B008, frozen
    batch_size: int = 16,
    max_wait: float = 0.01,
    queue_size: int = 1024,
    api_key: str | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        scorer: what answers `/v1/score`; None leaves it out.
        chat: what answers `/v1/chat/completions`; None leaves it out.
        limits: of one request.
        batch_size: pictures (or conversations) per call of what answers, at most.
        max_wait: seconds that one waits for others to share a call with.
        queue_size: how many may wait; a request that finds no place gets 503 and `Retry-After`.
        api_key: what `Authorization: Bearer` must say; None lets everybody in.
    """
    metrics = ServerMetrics()
    options: dict[str, Any] = {"batch_size": batch_size, "max_wait": max_wait, "queue_size": queue_size}
    batchers: list[MicroBatcher[Any, Any]] = []

    @asynccontextmanager
    async def serving(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(batcher.run()) for batcher in batchers]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(title="gnomon rm serve", lifespan=serving, openapi_url=None)
    app.add_middleware(BodyLimit, max_bytes=limits.body_bytes)
    app.middleware("http")(_Gate(metrics, api_key))
    if scorer is not None:
        scores = MicroBatcher[Picture, Outcome](
            partial(checked_scores, scorer), "this picture could not be scored: {}".format, metrics=metrics, **options
        )
        batchers.append(scores)
        _add_scores(app, scorer, scores, limits, metrics)
    if chat is not None:
        replies = MicroBatcher[Question, Answer](partial(answer, chat), failed, metrics=metrics, **options)
        batchers.append(replies)
        _add_chat(app, chat, replies, limits)

    @app.get("/health")
    async def health() -> dict[str, object]:
        waiting = sum(batcher.waiting for batcher in batchers)
        return {"status": "ok", **_described(scorer), "chat": None if chat is None else chat.name, "waiting": waiting}

    @app.get("/metrics")
    async def counters() -> Response:
        page = metrics.page(sum(batcher.waiting for batcher in batchers))
        return Response(page, media_type="text/plain; version=0.0.4")

    return app


def _described(scorer: PictureScorer | None) -> dict[str, object]:
    if scorer is None:
        return {"name": None, "fingerprint": None, "dimensions": []}
    return {"name": scorer.name, "fingerprint": scorer.fingerprint, "dimensions": list(scorer.dimensions)}


def _add_scores(
    app: FastAPI,
    scorer: PictureScorer,
    batcher: MicroBatcher[Picture, Outcome],
    limits: Limits,
    metrics: ServerMetrics,
) -> None:
    scoring = _Scoring(scorer.dimensions, batcher, limits, metrics)

    @app.post(PATH)
    async def score(request: Request) -> Response:
        return await scoring.answer(await request.body())


def _add_chat(app: FastAPI, chat: ChatModel, batcher: MicroBatcher[Question, Answer], limits: Limits) -> None:
    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [{"id": chat.name, "object": "model", "owned_by": "gnomon"}]}

    @app.post(CHAT_PATH)
    async def complete(request: Request) -> Response:
        body = await request.body()
        try:
            asked = await asyncio.to_thread(ChatRequest.model_validate_json, body)
            conversation = await asyncio.to_thread(asked.conversation, limits)
        except ValidationError as error:
            return _chat_refusal(400, _first_problem(error))
        except ValueError as error:
            return _chat_refusal(400, str(error))
        question = Question(conversation, asked.parameters, asked.top_logprobs if asked.logprobs else None)
        try:
            (found,) = await batcher.ask([question])
        except QueueFullError:
            return _chat_refusal(503, "too many requests are waiting", {"Retry-After": RETRY_AFTER_SECONDS})
        if found[0].status in ("api_error", "unreadable_image"):
            return _chat_refusal(400, found[0].error or found[0].status)
        return JSONResponse(completion(chat.name, found))


def _chat_refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error in the form that clients of this API read."""
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status, headers=headers)


def _first_problem(error: ValidationError) -> str:
    # Of a choice of types every one complains; the deepest complaint is about the one that was meant.
    first = max(error.errors(include_url=False, include_input=False), key=lambda problem: len(problem["loc"]))
    return f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}"


class _Gate:
    """Lets in whoever knows the key, and counts answers by status."""

    def __init__(self, metrics: ServerMetrics, api_key: str | None) -> None:
        self.metrics, self.api_key = metrics, api_key

    async def __call__(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request) if self._knows(request) else _refusal(401, "a key is needed")
        known = any(getattr(route, "path", None) == request.url.path for route in request.app.routes)
        self.metrics.answered(request.url.path if known else "other", response.status_code)
        return response

    def _knows(self, request: Request) -> bool:
        if self.api_key is None or request.url.path == "/health":
            return True
        said = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(said, f"Bearer {self.api_key}".encode())


class _Scoring:
    """One request to `/v1/score`."""

    def __init__(
        self,
        dimensions: tuple[str, ...],
        batcher: MicroBatcher[Picture, Outcome],
        limits: Limits,
        metrics: ServerMetrics,
    ) -> None:
        self.dimensions, self.batcher, self.limits, self.metrics = dimensions, batcher, limits, metrics

    async def answer(self, body: bytes) -> Response:
        try:
            request = await asyncio.to_thread(ScoreRequest.model_validate_json, body)
        except ValidationError as error:
            return _refusal(422, _first_problem(error))
        if problem := self._problem(request):
            return _refusal(422, problem)
        wanted = None if request.dimensions is None else tuple(request.dimensions)
        decoded = await asyncio.to_thread(lambda: [self._decode(item, wanted) for item in request.items])
        pictures = [picture for picture in decoded if isinstance(picture, Picture)]
        try:
            outcomes = iter(await self.batcher.ask(pictures))
        except QueueFullError:
            return _refusal(503, "too many pictures are waiting", headers={"Retry-After": RETRY_AFTER_SECONDS})
        results = []
        for item, picture in zip(request.items, decoded, strict=True):
            outcome = next(outcomes) if isinstance(picture, Picture) else picture
            results.append(_result(item.id, outcome, wanted))
        failed = sum(result.scores is None for result in results)
        self.metrics.items(scored=len(results) - failed, failed=failed)
        # A request of which no picture can be read is the client's mistake; the reasons are in the usual place.
        status = 200 if pictures else 422
        return Response(ScoreResponse(results=results).model_dump_json(), status, media_type="application/json")

    def _problem(self, request: ScoreRequest) -> str | None:
        if unknown := [name for name in request.dimensions or () if name not in self.dimensions]:
            return f"dimensions: expected some of {', '.join(self.dimensions)}, got {', '.join(unknown)}"
        if len(request.items) > self.limits.items:
            return f"items: expected at most {self.limits.items}, got {len(request.items)}; send several requests"
        return None

    def _decode(self, item: ScoreItem, wanted: tuple[str, ...] | None) -> Picture | str:
        if len(item.references) > self.limits.images:
            return f"expected at most {self.limits.images} references, got {len(item.references)}"
        try:
            references = [decode_picture(text, max_pixels=self.limits.pixels) for text in item.references]
            candidate = decode_picture(item.candidate, max_pixels=self.limits.pixels)
        except ValueError as error:
            return str(error)
        return Picture(item.instruction, tuple(references), candidate, item.meta, wanted)


def _result(name: str, outcome: Outcome, wanted: tuple[str, ...] | None) -> ScoreResult:
    if isinstance(outcome, str):
        return ScoreResult(id=name, error=outcome)
    missing = [dimension for dimension in wanted or () if dimension not in outcome]
    if missing:
        return ScoreResult(id=name, error=f"no score for {', '.join(missing)}")
    return ScoreResult(id=name, scores={key: outcome[key] for key in wanted or outcome})


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers=headers)
