"""The HTTP application: `/v1/score`, `/health` and `/metrics`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from rm.server.batching import MicroBatcher, QueueFullError
from rm.server.limits import BodyLimit, Limits
from rm.server.metrics import ServerMetrics
from rm.server.scoring import Picture, PictureScorer
from rm.service import PATH, ScoreItem, ScoreRequest, ScoreResponse, ScoreResult, decode_picture

RETRY_AFTER_SECONDS = "1"


def create_app(
    scorer: PictureScorer,
    *,
    limits: Limits = Limits(),  # noqa: B008, frozen
    batch_size: int = 16,
    max_wait: float = 0.01,
    queue_size: int = 1024,
    api_key: str | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        scorer: what scores.
        limits: of one request.
        batch_size: pictures per call of the scorer, at most.
        max_wait: seconds that a picture waits for others to share a call with.
        queue_size: pictures that may wait; a request that finds no place gets 503 and `Retry-After`.
        api_key: what `Authorization: Bearer` must say; None lets everybody in.
    """
    metrics = ServerMetrics()
    batcher = MicroBatcher(scorer, batch_size=batch_size, max_wait=max_wait, queue_size=queue_size, metrics=metrics)

    @asynccontextmanager
    async def serving(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    app = FastAPI(title="gnomon rm serve", lifespan=serving, openapi_url=None)
    app.add_middleware(BodyLimit, max_bytes=limits.body_bytes)
    app.middleware("http")(_Gate(metrics, api_key))

    @app.get("/health")
    async def health() -> dict[str, object]:
        about = {"name": scorer.name, "fingerprint": scorer.fingerprint, "dimensions": list(scorer.dimensions)}
        return {"status": "ok", **about, "waiting": batcher.waiting}

    @app.get("/metrics")
    async def counters() -> Response:
        return Response(metrics.page(batcher.waiting), media_type="text/plain; version=0.0.4")

    @app.post(PATH)
    async def score(request: Request) -> Response:
        return await _Scoring(batcher, limits, metrics).answer(await request.body())

    return app


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

    def __init__(self, batcher: MicroBatcher, limits: Limits, metrics: ServerMetrics) -> None:
        self.batcher, self.limits, self.metrics = batcher, limits, metrics

    async def answer(self, body: bytes) -> Response:
        try:
            request = await asyncio.to_thread(ScoreRequest.model_validate_json, body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return _refusal(422, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}")
        if problem := self._problem(request):
            return _refusal(422, problem)
        decoded = await asyncio.to_thread(lambda: [self._decode(item) for item in request.items])
        pictures = [picture for picture in decoded if isinstance(picture, Picture)]
        try:
            outcomes = iter(await self.batcher.score(pictures))
        except QueueFullError:
            return _refusal(503, "too many pictures are waiting", headers={"Retry-After": RETRY_AFTER_SECONDS})
        wanted = request.dimensions
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
        known = self.batcher.scorer.dimensions
        if unknown := [name for name in request.dimensions or () if name not in known]:
            return f"dimensions: expected some of {', '.join(known)}, got {', '.join(unknown)}"
        if len(request.items) > self.limits.items:
            return f"items: expected at most {self.limits.items}, got {len(request.items)}; send several requests"
        return None

    def _decode(self, item: ScoreItem) -> Picture | str:
        if len(item.references) > self.limits.images:
            return f"expected at most {self.limits.images} references, got {len(item.references)}"
        try:
            references = [decode_picture(text, max_pixels=self.limits.pixels) for text in item.references]
            candidate = decode_picture(item.candidate, max_pixels=self.limits.pixels)
        except ValueError as error:
            return str(error)
        return Picture(item.instruction, tuple(references), candidate, item.meta)


def _result(name: str, outcome: dict[str, float] | str, wanted: list[str] | None) -> ScoreResult:
    if isinstance(outcome, str):
        return ScoreResult(id=name, error=outcome)
    missing = [dimension for dimension in wanted or () if dimension not in outcome]
    if missing:
        return ScoreResult(id=name, error=f"no score for {', '.join(missing)}")
    return ScoreResult(id=name, scores={key: outcome[key] for key in wanted or outcome})


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers=headers)
