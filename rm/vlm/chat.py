"""Chat requests to a server: asked without a JSON schema where it takes none, read as chat completions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from rm.vlm.requests import Connection, Memory, SharedClient, StatusError
from rm.vlm.wire import Body


@dataclass
class ChatMemory(Memory):
    """What was learnt about a server: also whether it takes no JSON schemas."""

    no_schemas: bool = False


class ChatClient(Connection):
    """A connection over which chat completions are asked for."""

    memory: ChatMemory

    def __init__(self, shared: SharedClient, memory: ChatMemory) -> None:
        """Prepare to talk to a server; raises as :class:`rm.vlm.requests.Connection`."""
        super().__init__(shared, memory, feature="asking a model behind an API")

    async def complete(self, body: Body) -> Body:
        """Return the server's answer, with at least one choice that holds a message.

        A server that refuses a request with a JSON schema is asked without; if that helps, it is remembered.

        Args:
            body: of the request, without the model.

        Raises:
            NoAnswerError: why there is none.
            UserError: for a wrong key or model name (401, 404) of a server that has not answered anything yet.
        """
        asked = body
        if self.memory.no_schemas:
            asked = {name: value for name, value in body.items() if name != "response_format"}
        try:
            return await self._complete(asked)
        except StatusError as error:
            if error.status in (400, 422) and "response_format" in asked and not error.is_withheld:
                return await self._without_schema(asked, error)
            raise self.explained(error) from error

    async def _without_schema(self, body: Body, refusal: StatusError) -> Body:
        try:
            answer = await self._complete({name: value for name, value in body.items() if name != "response_format"})
        except StatusError as error:  # so the schema was not the reason
            raise self.explained(error) from error
        if not self.memory.no_schemas:
            self.memory.no_schemas = True
            warnings.warn(
                f"{self.endpoint.base_url} takes no JSON schema ({refusal}); {self.endpoint.model} is asked without, "
                "so its replies may have any form",
                stacklevel=2,
            )
        return answer

    async def _complete(self, body: Body) -> Body:
        return await self.ask("/chat/completions", {"model": self.endpoint.model, **body}, self._parsed)

    def _parsed(self, content: bytes) -> Body:
        """Return a body as a chat completion."""
        answer = self.parsed(content)
        try:
            if isinstance(answer["choices"][0]["message"], dict):
                return dict(answer)
        except (KeyError, IndexError, TypeError):
            pass
        raise self.without("a message", answer)
