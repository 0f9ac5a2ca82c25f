import type { Shape } from "@/client/types";

type Tenant = Shape<"TenantShown">;

/** What stands in the fields of the form. */
export interface TenantDraft {
  /** Dollars; empty for no limit. */
  readonly budget: string;
  /** One a line. */
  readonly grants: string;
}

const AMOUNT = /^\d{1,9}(\.\d{1,6})?$/;
const MICRO = 1_000_000;

/** `5.00`, exactly: an amount that is saved again is the same. */
function asDollars(micro: number): string {
  const rest = String(micro % MICRO)
    .padStart(6, "0")
    .replace(/0+$/, "")
    .padEnd(2, "0");
  return `${Math.floor(micro / MICRO)}.${rest}`;
}

export function draftOf(tenant: Tenant): TenantDraft {
  return {
    budget: tenant.budget_microusd === null ? "" : asDollars(tenant.budget_microusd),
    grants: tenant.grants.join("\n"),
  };
}

export function budgetError(budget: string): string | undefined {
  const isFine = budget.trim() === "" || AMOUNT.test(budget.trim());
  return isFine ? undefined : "An amount such as 5.00, with at most six decimals.";
}

function grantsOf(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.trim());
  return [...new Set(lines.filter((line) => line !== ""))].sort();
}

function microOf(budget: string): number | null {
  const [dollars = "", rest = ""] = budget.trim().split(".");
  return dollars === "" ? null : Number(dollars) * MICRO + Number(rest.padEnd(6, "0"));
}

/** Only what differs, so that two admins do not undo each other's changes. */
export function changeOf(tenant: Tenant, draft: TenantDraft): Shape<"TenantChange"> {
  const grants = grantsOf(draft.grants);
  const isSame = grants.join("\n") === [...tenant.grants].sort().join("\n");
  const budget = draft.budget.trim();
  return {
    ...(microOf(budget) === tenant.budget_microusd ? {} : { budget_usd: budget === "" ? null : budget }),
    ...(isSame ? {} : { grants: [...grants] }),
  };
}
