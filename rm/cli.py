"""The commands of `gnomon rm`. Heavy imports happen inside: `--help` of a command must stay fast."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

from gnomon.errors import UserError


def fit(argv: list[str]) -> None:
    """Train a reward model: LightningCLI over trainer, model and data, and a run folder.

    Flags beside LightningCLI's: `--out DIR` (required), `--tracker csv|tensorboard|wandb`. Run again with the same
    command, it goes on from the last checkpoint, or says that it is finished. The best checkpoint by strict pair
    accuracy on the validation folder (in `overall`, or the mean of all dimensions where nothing is decided in it) is
    written as a reward model to `DIR/model`. The validation folder is `--data.validation`, or an import of
    EditReward-Compass as `--data.editreward_compass`.

    Args:
        argv: the arguments after `gnomon rm fit`.

    Raises:
        UserError: for a config, data or folder that does not fit.
    """
    from rm.training import train

    train(argv)


def think(argv: list[str]) -> None:
    """Train a judge that thinks before it answers: a cold start on rationales, then GRPO, and a run folder.

    Run again with the same command, it goes on from the last checkpoint, or says that it is finished. The adapter is
    written to `OUT/adapter`, and works with the base model as a judge of the same protocol.

    Args:
        argv: the arguments after `gnomon rm think`.

    Raises:
        UserError: for a config, data or folder that does not fit.
    """
    from rm.thinking.training import parse, train

    train(*parse(argv))


def evaluate(
    *,
    judge: str,
    data: str,
    out: str,
    min_margin: float | list[float] | None = None,
    against: str | None = None,
    rubrics: str | None = None,
    sanity: int = 0,
    base: str | None = None,
    template: str | None = None,
    batch_size: int = 16,
    language: str = "en",
    device: str = "cpu",
    limit: int | None = None,
    max_references: int | None = None,
    seed: int = 0,
) -> None:
    """Measure the pair accuracy of a judge on a comparison folder.

    Writes `samples.jsonl` (one line per pair and dimension) and `results.json` to the run folder and prints a table.
    Run again, perhaps with other figures (`--against`, `--min-margin`, `--sanity`), it scores only what is missing.

    Args:
        judge: folder of a reward model, or of a base model (scored by its own "yes" against "no", a yardstick); or a
            YAML file with class_path and init_args of any judge; or the name of a control judge: always-first, random,
            majority.
        data: folder with comparisons.jsonl.
        out: run folder.
        min_margin: also give figures for pairs at least this far apart; one number or a list.
        against: run folder of another judge on the same data, for the paired difference of accuracies.
        rubrics: forms of rubrics to ask with, separated by commas, such as ours,viescore-style; each is evaluated in
            OUT/NAME, and those after the first are compared with it.
        sanity: also spoil the edits of so many comparisons (black, blurred, foreign, ...); a judge that some kind of it
            never moves is an error.
        base: where the reward model's base is, when it has moved.
        template: prompt of a base model without a reward model's manifest.
        batch_size: candidates per forward pass.
        language: of the instructions, en or zh.
        device: such as cpu or cuda.
        limit: only the first so many comparisons.
        max_references: only comparisons with at most so many references.
        seed: of the bootstrap and of the random judge.
    """
    from rm.evaluate import check_sanity, read_judged, run_evaluation
    from rm.evaluation_text import results_text
    from rm.scorers import make_scorer
    from rm.variants import variants_of

    margins = [min_margin] if isinstance(min_margin, float) else min_margin or []
    settings: dict[str, object] = {"judge": judge, "data": data, "min_margin": margins, "sanity": sanity, "base": base}
    settings |= {"template": template, "language": language, "limit": limit, "max_references": max_references}
    items = read_judged(data, limit=limit, max_references=max_references)
    scorer = make_scorer(
        judge,
        items,
        Path(data),
        base=base,
        template=template,
        batch_size=batch_size,
        language=language,
        device=device,
        seed=seed,
    )
    written = []
    for variant in variants_of(scorer, out, against=against, rubrics=rubrics):
        said = settings | {"against": variant.against, "rubrics": variant.rubrics}
        run = partial(run_evaluation, variant.scorer, items, data=data, out=variant.out, settings=said, seed=seed)
        written.append(run(min_margins=margins, against=variant.against, sanity=sanity))
        print(f"{results_text(written[-1])}\nwritten to {variant.out / 'results.json'}")
    for results in written:
        check_sanity(results)


def merge(*, model: str, out: str, base: str | None = None) -> None:
    """Write a reward model whose adapter is part of its base: a plain model in `OUT/base`, and the heads.

    It is loaded again and compared with the original before it is called done.

    Args:
        model: folder of the reward model.
        out: folder of the merged one.
        base: where the base model is now, when it has moved.
    """
    from rm.merging import merge as merged

    difference = merged(model, out, base=base)
    print(f"the merged reward model is in {out}; its scores differ by {difference:.2g} at most")


def serve(
    *,
    model: str | None = None,
    judge: str | None = None,
    chat: str | None = None,
    chat_adapter: str | None = None,
    base: str | None = None,
    device: str = "cpu",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    host: str = "127.0.0.1",
    port: int = 8000,
    batch_size: int = 16,
    max_wait: float = 0.01,
    queue_size: int = 1024,
    max_body_megabytes: int = 64,
    api_key_variable: str | None = None,
) -> None:
    """Serve a judge, a vision-language model, or both over HTTP until interrupted.

    `POST /v1/score` scores pictures (see docs/serving.md), `POST /v1/chat/completions` is OpenAI's API of a local
    model, `GET /health` says what is served, `GET /metrics` is for Prometheus.

    Args:
        model: folder of a reward model that scores.
        judge: YAML file with class_path and init_args of a judge that scores, instead.
        chat: vision-language model that chats: a folder or a name on the hub.
        chat_adapter: folder of a LoRA adapter for it.
        base: where the reward model's base is now, when it has moved.
        device: of reward model and chat model, such as cpu or cuda.
        dtype: of the chat model.
        host: address to listen at; only this machine can reach the default one.
        port: port to listen at; 0 takes a free one.
        batch_size: pictures or conversations per forward pass, at most.
        max_wait: seconds that one waits for others to share a forward pass with.
        queue_size: how many may wait; clients that find no place are told to come back.
        max_body_megabytes: longest request.
        api_key_variable: name of the environment variable that holds the key that clients must send.
    """
    from rm.server.run import run

    def load() -> tuple[Any, Any]:
        from rm.server.scoring import load_scorer
        from rm.vlm.local import LocalVLM

        scorer = load_scorer(model=model, judge=judge, base=base, device=device)
        if chat is None:
            return scorer, None
        return scorer, LocalVLM(chat, adapter=chat_adapter, dtype=dtype, device=device, batch_size=batch_size)

    if model is None and judge is None and chat is None:
        raise UserError("expected something to serve: give --model, --judge or --chat")
    run(
        load,
        host=host,
        port=port,
        batch_size=batch_size,
        max_wait=max_wait,
        queue_size=queue_size,
        max_body_bytes=max_body_megabytes * 2**20,
        api_key_variable=api_key_variable,
    )


def parse(
    *,
    protocol: Literal["rubric", "checklist", "pairwise", "score-list"],
    replies: str,
    out: str,
    minimum: float = 0.0,
    maximum: float = 10.0,
    key: str | list[str] | None = None,
    count: int | None = None,
    rule: Literal["strict", "first-label"] = "strict",
) -> None:
    """Read saved replies of a judge again, without a model.

    Each line of `replies` is an object with `id` and `reply`, and perhaps `finish_reason`; other keys are ignored. Each
    line of `out` has `id`, `value` and `status`, in the same order; `value` is null wherever `status` is not ok.

    Args:
        protocol: what was asked: rubric (one score), checklist (yes or no), pairwise (which picture is better) or
            score-list (several scores).
        replies: JSON-lines file with the replies.
        out: JSON-lines file to write.
        minimum: lowest score of the scale.
        maximum: highest score of the scale.
        key: further names under which a rubric's JSON holds the score; one or a list.
        count: how many scores a list must hold; any number by default.
        rule: how pairwise labels are read: strict (a contradiction is a failure) or first-label (the first label in
            double brackets counts, as in GenAI-Bench's published figures).
    """
    from rm.protocols.parsing import Scale
    from rm.protocols.replies import parse_replies

    keys = [key] if isinstance(key, str) else key or []
    scale = Scale(minimum, maximum)
    print(parse_replies(protocol, replies, out, scale=scale, keys=keys, count=count, rule=rule))
    print(f"written to {out}")
