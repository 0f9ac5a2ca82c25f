/** What an end by a code means, in words that go behind the name of what has ended. */
export interface EndWords {
  readonly title: string;
  /** What happened. */
  readonly what: string;
  /** What helps, as a whole sentence. */
  readonly remedy: string;
}

const ASK_ANOTHER = "Retry it, or ask again with another model.";

/** Codes of ends that somebody can do something about: of tasks, and of goals that could not be planned. */
const ENDS: Readonly<Record<string, readonly [title: string, what: string, remedy: string]>> = {
  max_iterations: [
    "Out of iterations",
    "used all its iterations without meeting the criteria",
    "Retry it for as many again.",
  ],
  stuck: [
    "Stuck",
    "decided the same again and again without new evidence",
    "Leave it a note or other tools, then retry.",
  ],
  rejected: ["Rejected", "was rejected by a person", "Its agent reads why when it is retried."],
  model_refused_call: [
    "The provider refused",
    "was refused by its model's provider for good: a key, a request or words that it does not take",
    "Change that, then retry.",
  ],
  provider_unavailable: [
    "The provider is away",
    "was tried again as often as its model allows, and its provider was unavailable each time",
    "Retry it when it is back.",
  ],
  rate_limited: [
    "The provider's rate limit",
    "met its provider's rate limit at every attempt",
    "Retry it later.",
  ],
  decision_invalid: [
    "No usable decision",
    "got a reply from its model that was no decision, and no better one when asked again",
    ASK_ANOTHER,
  ],
  output_invalid: [
    "No usable reply",
    "got no reply from its model that has the form it needs, also when asked again",
    ASK_ANOTHER,
  ],
  plan_invalid: [
    "No usable plan",
    "got no plan from its model that could be launched",
    "Ask in other words or with another model, or retry it.",
  ],
  model_timeout: [
    "The model did not answer",
    "waited for its model as long as is allowed, at every attempt",
    ASK_ANOTHER,
  ],
  model_reply_broken: [
    "The reply was broken",
    "got replies from its model's provider that could not be read",
    "Retry it later.",
  ],
  context_too_long: [
    "Too long for the model",
    "had more to show its model than that takes",
    "Ask again with a model that takes more, or for less at once.",
  ],
  media_not_taken: [
    "Not for this model",
    "has an image, a sound or a file that its model does not take",
    "Ask again with a model that does.",
  ],
  offline_cannot: [
    "Not possible offline",
    "needs more than the offline model does with certainty",
    "Ask again with another model.",
  ],
  unknown_model: ["No such model", "asks a model that nobody here provides", "Ask again with another one."],
  missing_key: [
    "A key is missing",
    "asks a model whose provider's key the server has not",
    "Start the server with that key, then retry.",
  ],
  price_unknown: [
    "No price is known",
    "asks a model of unknown price, and a budget reserves what a call can cost",
    "Set its price, then retry, or ask again with another model.",
  ],
  unknown_price: [
    "No price is known",
    "asks a model of unknown price, and its plan is held to what it costs at most",
    "Set its price, then retry, or ask again with another model.",
  ],
  not_granted: [
    "Not allowed",
    "needed something that it is not granted",
    "Its run says what; grant it, then retry.",
  ],
  access_denied: [
    "Not allowed",
    "needed something that it may not use",
    "Its run says what; allow it, then retry.",
  ],
  limit_reached: [
    "A limit was reached",
    "met a limit that holds for it",
    "Its run says which; raise it, then retry.",
  ],
  insufficient_funds: [
    "Not enough money",
    "could not pay for its next call",
    "Its run says whose money it was; raise that, then retry.",
  ],
  quota_reached: [
    "The storage is used up",
    "could store nothing more: the tenant has as much as it may",
    "Raise its quota, then retry.",
  ],
  too_many_at_once: [
    "Too much at once",
    "needed more at once than the tenant may have",
    "Retry it when some of that has ended.",
  ],
  store_full: [
    "The disk is full",
    "could record nothing more: the server's disk is full",
    "Make room there, then retry.",
  ],
  store_unavailable: [
    "The database is away",
    "could record nothing: the server's database did not answer",
    "Retry it when it is back.",
  ],
  store_locked: [
    "The database is busy",
    "could record nothing: another program held the server's database",
    "Retry it when that has ended.",
  ],
  erased: ["It was erased", "needed content that was erased since", "Ask the goal again with what is there."],
  locked: [
    "A key is missing",
    "needed content that is sealed under a key which the server has not",
    "Start the server with that key, then retry.",
  ],
  replay_mismatch: [
    "It cannot go on",
    "was begun by code that has changed since, and its record does not fit it any more",
    "Ask the goal again.",
  ],
};

export const END_CODES: readonly string[] = Object.keys(ENDS);

/** What an end by a code means; null for a code that is not listed, as of an error in a program's own code. */
export function endWords(code: string): EndWords | null {
  const found = ENDS[code];
  return found === undefined ? null : { title: found[0], what: found[1], remedy: found[2] };
}

/** What helps after an end whose code is not listed: a retry repeats what has failed. */
export const GENERAL_REMEDY = "Retry it once the cause is gone, or ask again in other words.";

/** Ends that a retry meets again: a task keeps its model, its inputs and its record. */
export const ASKED_ANEW: ReadonlySet<string> = new Set([
  "context_too_long",
  "erased",
  "media_not_taken",
  "offline_cannot",
  "replay_mismatch",
  "unknown_model",
]);
