"""The model `example:<anything>`: it replies with the number of words that it was sent."""

from artelier.ports.model import FREE, ModelReply, ModelRequest, Usage


class CountingModel:
    """A model needs an async `complete`; `price` tells what a call costs."""

    price = FREE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        words = len(str(request.messages[-1].content).split())
        return ModelReply(text=f"{words} words", usage=Usage(input_tokens=words, output_tokens=2))
