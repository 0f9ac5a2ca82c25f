import { afterEach, expect, test, vi } from "vitest";
import { address, api, ApiError, inWords, onSignedOut, path, setCsrfToken } from "./http";

const asked: { url: string; init: RequestInit }[] = [];

function answer(status: number, body: string | object): void {
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push({ url, init });
    return Promise.resolve(
      new Response(status === 204 ? null : typeof body === "string" ? body : JSON.stringify(body), {
        status,
      }),
    );
  });
}

afterEach(() => {
  asked.length = 0;
  vi.unstubAllGlobals();
});

test("an id with slashes is one segment of the address", () => {
  expect(path("runs", "m1/figures", "pause")).toBe("/runs/m1%2Ffigures/pause");
  expect(address("/events", { after: 7, kind: ["a", "b"], prefix: null, limit: undefined })).toBe(
    "/api/v1/events?after=7&kind=a&kind=b",
  );
});

test("a change carries the CSRF token, a question does not", async () => {
  setCsrfToken("t0ken");
  answer(200, {});
  await api.post("/runs/r/pause");
  await api.get("/runs");

  expect(new Headers(asked[0]?.init.headers).get("X-CSRF-Token")).toBe("t0ken");
  expect(asked[0]?.init.body).toBe("{}");
  expect(new Headers(asked[1]?.init.headers).has("X-CSRF-Token")).toBe(false);
});

test("a refusal says what was expected, what came and what to do", async () => {
  answer(422, {
    error: {
      code: "invalid_request",
      message: "no such slider",
      expected: "budget_usd",
      got: "budget",
      hint: "Use budget_usd.",
    },
  });
  const error = await api.patch("/steering/x", {}).catch((reason: unknown) => reason);

  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({
    code: "invalid_request",
    status: 422,
    expected: "budget_usd",
    hint: "Use budget_usd.",
  });
  expect(inWords(error)).toEqual({
    title: "no such slider",
    advice: "Expected budget_usd. Got budget. Use budget_usd.",
  });
});

test.each([["<html>proxy</html>"], [""], ["null"], ['{"error":null}']])(
  "a refusal in another shape is still one: %s",
  async (body) => {
    answer(502, body);

    await expect(api.get("/runs")).rejects.toMatchObject({ code: "http_502", status: 502 });
  },
);

test("an answer that is no JSON, and none at all, say so", async () => {
  answer(200, "<html>");
  await expect(api.get("/runs")).rejects.toMatchObject({ code: "broken_answer" });

  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  await expect(api.get("/runs")).rejects.toMatchObject({ code: "unreachable", status: 0 });
});

test("401 tells whoever wants to know", async () => {
  const heard: ApiError[] = [];
  onSignedOut((error) => heard.push(error));
  answer(401, { error: { code: "not_signed_in", message: "nobody is signed in", hint: "Open the link." } });

  await expect(api.get("/me")).rejects.toMatchObject({ status: 401 });
  expect(heard).toEqual([expect.objectContaining({ hint: "Open the link." })]);
});

test("an answer without content is one", async () => {
  answer(204, "");

  await expect(api.del("/artifacts/x")).resolves.toBeUndefined();
});
