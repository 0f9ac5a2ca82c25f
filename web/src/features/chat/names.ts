/** The name in the JSON that says who somebody is. */
export function nameOf(who: Readonly<Record<string, unknown>>, otherwise: string): string {
  const name = who["name"];
  return typeof name === "string" && name !== "" ? name : otherwise;
}

/** A text of it, "" if there is none. */
export function textOf(who: Readonly<Record<string, unknown>>, field: string): string {
  const value = who[field];
  return typeof value === "string" ? value : "";
}
