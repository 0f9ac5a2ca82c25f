"""The kind of operation `word_count`: its value is the number of words of a text."""

from artelier.operations.kinds import Call, Found, Kind
from artelier.operations.profile.definition import Params


class WordCountParams(Params):
    """What a profile says of such an operation, beside its effects and its time."""

    text: str


async def _run(call: Call[WordCountParams]) -> Found:
    return Found(value=len(call.params.text.split()))


KIND: Kind[WordCountParams] = Kind(name="word_count", params=WordCountParams, run=_run)
