import { api, setCsrfToken } from "./http";

export type Role = "viewer" | "operator" | "admin";

export interface Me {
  readonly name: string;
  readonly role: Role;
  readonly tenant: string;
  readonly tenants: readonly string[];
  readonly csrf_token: string | null;
  readonly features: readonly string[];
  readonly version: string;
}

/** Who is signed in. Errors: `ApiError` with status 401 if nobody is. */
export async function fetchMe(): Promise<Me> {
  const me = await api.get<Me>("/me");
  setCsrfToken(me.csrf_token ?? "");
  return me;
}

export async function signIn(user: string, password: string): Promise<void> {
  await api.post("/login", { user, password });
}

/** The tenant of this browser's next requests; kept in a cookie. */
export async function chooseTenant(tenant: string): Promise<void> {
  await api.patch("/me", { tenant });
}

export async function signOut(): Promise<void> {
  await api.post("/logout");
}

export function mayAct(me: Me | null): boolean {
  return me !== null && me.role !== "viewer";
}
