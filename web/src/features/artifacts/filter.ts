import type { Artifact } from "@/projection/graph";

/** What one asks the list for. "" everywhere: what was made, of anybody. */
export interface Filter {
  /** "" is what was made; `all` also agents, tasks, membranes, steering, memories; else one kind. */
  readonly kind: string;
  readonly owner: string;
  readonly words: string;
}

export const ALL = "all";
/** Kinds that other screens show as what they are. */
const OF_THEIR_OWN: ReadonlySet<string> = new Set([
  "agent",
  "task",
  "membrane",
  "steering",
  "memory_block",
  "memory_store",
]);

export function readFilter(query: Readonly<Record<string, string>>): Filter {
  return { kind: query["kind"] ?? "", owner: query["owner"] ?? "", words: query["q"] ?? "" };
}

export function writeFilter(filter: Filter): Readonly<Record<string, string>> {
  const { kind, owner, words: q } = filter;
  return Object.fromEntries(Object.entries({ kind, owner, q }).filter(([, value]) => value !== ""));
}

export function isFiltered(filter: Filter): boolean {
  return filter.kind !== "" || filter.owner !== "" || filter.words.trim() !== "";
}

function isOfKind(artifact: Artifact, kind: string): boolean {
  if (kind === ALL) return true;
  return kind === "" ? !OF_THEIR_OWN.has(artifact.kind) : artifact.kind === kind;
}

function hasWords(artifact: Artifact, words: string): boolean {
  const text = `${artifact.title} ${artifact.id} ${artifact.kind} ${artifact.owner}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

export interface Found {
  readonly artifact: Artifact;
  /** Whether its name has the words; else only its content has. */
  readonly isByName: boolean;
}

/**
 * What a filter lets through, in the order that came; what is found by name stands before what the server
 * found by content (`inContent`: ids).
 */
export function matches(
  artifacts: readonly Artifact[],
  filter: Filter,
  inContent: ReadonlySet<string>,
): readonly Found[] {
  const words = filter.words.trim();
  const mine = artifacts.filter(
    (one) => isOfKind(one, filter.kind) && (filter.owner === "" || one.owner === filter.owner),
  );
  if (words === "") return mine.map((artifact) => ({ artifact, isByName: true }));
  const byName = mine.filter((one) => hasWords(one, words));
  const byContent = mine.filter((one) => inContent.has(one.id) && !hasWords(one, words));
  return [
    ...byName.map((artifact) => ({ artifact, isByName: true })),
    ...byContent.map((artifact) => ({ artifact, isByName: false })),
  ];
}

/** The values of a field with how often each occurs, by name. */
export function counted(
  artifacts: readonly Artifact[],
  field: "kind" | "owner",
): readonly (readonly [value: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const one of artifacts) counts.set(one[field], (counts.get(one[field]) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a.localeCompare(b));
}
