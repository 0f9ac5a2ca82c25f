"""The kind of operation `word_count`: its value is the number of words of a text."""

from artelier.operations.kinds import OperationCall, OperationKind, OperationResult
from artelier.operations.profile.definition import Params


class WordCountParams(Params):
    """What a profile says of such an operation, beside its effects and its time."""

    text: str


async def _run(call: OperationCall[WordCountParams]) -> OperationResult:
    return OperationResult(value=len(call.params.text.split()))


KIND: OperationKind[WordCountParams] = OperationKind(name="word_count", params=WordCountParams, run=_run)
