/** What the server says when it refuses: what was expected, what came, what to do. */
export class ApiError extends Error {
  readonly code: string;
  readonly expected: string | null;
  readonly got: string | null;
  readonly hint: string | null;
  /** HTTP status; 0 if no answer came. */
  readonly status: number;

  constructor(facts: {
    readonly code: string;
    readonly message: string;
    readonly expected?: string | null;
    readonly got?: string | null;
    readonly hint?: string | null;
    readonly status: number;
  }) {
    super(facts.message);
    this.name = "ApiError";
    this.code = facts.code;
    this.expected = facts.expected ?? null;
    this.got = facts.got ?? null;
    this.hint = facts.hint ?? null;
    this.status = facts.status;
  }
}

export type Params = Readonly<
  Record<string, string | number | boolean | readonly string[] | null | undefined>
>;

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | number | null;
}

const ROOT = "/api/v1";
const door: { csrf: string; signedOut: (error: ApiError) => void } = { csrf: "", signedOut: () => undefined };

/** The token that `GET /me` gave; each request that changes something carries it. */
export function setCsrfToken(token: string): void {
  door.csrf = token;
}

/** Called when the server does not know the session (any more). */
export function onSignedOut(listener: (error: ApiError) => void): void {
  door.signedOut = listener;
}

/** `/runs/{id}` with the id encoded whole: `path("runs", "m1/figures", "pause")`. */
export function path(...segments: readonly string[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

export function address(route: string, params?: Params): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    if (value === null || value === undefined) continue;
    if (typeof value === "object") value.forEach((item) => query.append(name, item));
    else query.append(name, String(value));
  }
  const text = query.toString();
  return `${ROOT}${route}${text === "" ? "" : `?${text}`}`;
}

interface Options {
  readonly params?: Params;
  readonly signal?: AbortSignal;
  /** The answer as it came, not as JSON. */
  readonly isText?: boolean;
}

async function request<T>(method: string, route: string, body: unknown, options: Options): Promise<T> {
  const headers = new Headers({ Accept: "application/json" });
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (options.signal !== undefined) init.signal = options.signal;
  if (method !== "GET") headers.set("X-CSRF-Token", door.csrf);
  if (body instanceof FormData) {
    init.body = body;
  } else if (body instanceof Blob) {
    headers.set("Content-Type", "application/octet-stream");
    init.body = body;
  } else if (body !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = JSON.stringify(body);
  }
  return answerOf<T>(await send(address(route, options.params), init), options.isText === true);
}

async function answerOf<T>(response: Response, isText = false): Promise<T> {
  if (!response.ok) throw await refusal(response);
  if (response.status === 204) return undefined as T;
  if (isText) return (await response.text()) as T;
  try {
    return (await response.json()) as T;
  } catch {
    throw new ApiError({
      code: "broken_answer",
      message: "The answer is no JSON.",
      hint: "Check that the address is that of `artelier up`.",
      status: response.status,
    });
  }
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
}

function unreachable(): ApiError {
  return new ApiError({
    code: "unreachable",
    message: "The server does not answer.",
    hint: "Check that `artelier up` is still running.",
    status: 0,
  });
}

async function refusal(response: Response): Promise<ApiError> {
  const error = await refusalOf(response);
  if (response.status === 401) door.signedOut(error);
  return error;
}

async function refusalOf(response: Response): Promise<ApiError> {
  const fallback = {
    code: `http_${response.status}`,
    message: `The server answered ${response.status}.`,
    status: response.status,
  };
  try {
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    const fact = (name: string): string | null => {
      const value = error[name];
      return value === null || value === undefined ? null : String(value);
    };
    return new ApiError({
      code: fact("code") ?? fallback.code,
      message: fact("message") ?? fallback.message,
      expected: fact("expected"),
      got: fact("got"),
      hint: fact("hint"),
      status: response.status,
    });
  } catch {
    return new ApiError(fallback);
  }
}

/** Routes are below `/api/v1`; `T` is the type of the answer, from `schema.d.ts` where it is generated. */
export const api = {
  get: <T>(route: string, params?: Params, signal?: AbortSignal): Promise<T> =>
    request<T>("GET", route, undefined, { ...(params && { params }), ...(signal && { signal }) }),
  /** The answer byte for byte, such as a prompt. */
  text: (route: string, params?: Params, signal?: AbortSignal): Promise<string> =>
    request<string>("GET", route, undefined, {
      isText: true,
      ...(params && { params }),
      ...(signal && { signal }),
    }),
  post: <T = unknown>(route: string, body: unknown = {}, params?: Params): Promise<T> =>
    request<T>("POST", route, body, { ...(params && { params }) }),
  patch: <T = unknown>(route: string, body: unknown, params?: Params): Promise<T> =>
    request<T>("PATCH", route, body, { ...(params && { params }) }),
  put: <T = unknown>(route: string, body: unknown): Promise<T> => request<T>("PUT", route, body, {}),
  del: <T = unknown>(route: string, params?: Params): Promise<T> =>
    request<T>("DELETE", route, undefined, { ...(params && { params }) }),
};

/**
 * Posts a form and tells how much of it is on its way, which `fetch` cannot.
 * Errors: `ApiError`, as of the other requests.
 */
export function upload<T>(
  route: string,
  form: FormData,
  onProgress: (sentBytes: number, totalBytes: number) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(route));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("X-CSRF-Token", door.csrf);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onerror = () => reject(unreachable());
    request.onload = () => {
      const response = new Response(request.responseText, { status: request.status });
      void answerOf<T>(response).then(resolve, reject);
    };
    request.send(form);
  });
}

/** A failure in words, for whatever shows it. */
export function inWords(error: unknown): { readonly title: string; readonly advice: string } {
  if (error instanceof ApiError) {
    const difference = [
      error.expected === null ? "" : `Expected ${error.expected}.`,
      error.got === null ? "" : `Got ${error.got}.`,
    ];
    return { title: error.message, advice: [...difference, error.hint ?? ""].filter(Boolean).join(" ") };
  }
  return { title: error instanceof Error ? error.message : String(error), advice: "" };
}
