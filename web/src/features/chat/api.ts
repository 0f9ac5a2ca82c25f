import { address, api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";

export type Chat = Shape<"ChatShown">;
export type ChatLine = Shape<"ChatLine">;
export type ChatTurn = Shape<"Turn">;
export type Variant = Shape<"Variant">;
export type Branch = Shape<"Branch">;
export type Panel = Shape<"Panel">;
export type Feed = Shape<"Feed">;
export type Profile = Shape<"ProfileLine">;
export type Mistake = Shape<"Mistake">;
type Started = Shape<"TurnStarted">;

export const MAIN = "main";
export const TURNS_FIRST = 50;
export const TURNS_MAX = 200;

/** Whose chat, and on which branch. */
export interface Place {
  readonly chat: string;
  readonly branch: string;
}

export function chatKey({ chat, branch }: Place): readonly string[] {
  return ["chat", chat, branch];
}

const of = (chat: string, verb = ""): string => `${path("sessions", chat)}${verb === "" ? "" : `/${verb}`}`;

export function readChat(
  { chat, branch }: Place,
  page: { readonly limit: number; readonly before?: number },
  signal?: AbortSignal,
): Promise<Chat> {
  return api.get<Chat>(of(chat), { branch, ...page }, signal);
}

/** What was read of a chat last; for commands. */
export function knownChat(place: Place): Chat | undefined {
  const found = queryClient.getQueriesData<{ readonly value: Chat }>({ queryKey: chatKey(place) });
  return found.map(([, data]) => data?.value).findLast((chat) => chat !== undefined);
}

/** Whether a reply is on its way on the branch that is shown. */
export function isBusy(chat: Chat): boolean {
  const now = currentBranch(chat);
  return now !== undefined && now.run_id !== "" && !OVER.has(now.status);
}

const OVER: ReadonlySet<string> = new Set(["", "completed", "failed", "cancelled"]);

export function currentBranch(chat: Chat): Branch | undefined {
  return chat.branches.find((one) => one.name === chat.branch);
}

// What people do. Each answer says which run is at work; events bring the rest.

/** `attachments`: refs of images, sounds and PDFs that the model is shown with the words. */
export const say = (
  { chat, branch }: Place,
  text: string,
  attachments: readonly string[] = [],
): Promise<Started> =>
  api.post<Started>(of(chat, "turns"), {
    text,
    branch,
    ...(attachments.length > 0 && { attachments }),
  });

/** What the model would have the person say; nobody has said it. */
export const impersonate = ({ chat, branch }: Place): Promise<Shape<"DraftShown">> =>
  api.post(of(chat, "impersonate"), { branch });

export const regenerate = ({ chat, branch }: Place): Promise<Started> =>
  api.post<Started>(of(chat, "regenerate"), { branch });

export const goOn = ({ chat, branch }: Place): Promise<Started> =>
  api.post<Started>(of(chat, "continue"), { branch });

/** A character goes on without words of the person; of a group the one that is named, or the next. */
export const speak = ({ chat, branch }: Place, speaker = ""): Promise<Started> =>
  api.post<Started>(of(chat, "speak"), { branch, speaker });

export const rerun = ({ chat, branch }: Place, turn: number, text = ""): Promise<Started> =>
  api.post<Started>(of(chat, "rerun"), { branch, turn, text });

export type Role = "user" | "assistant";

export const revise = ({ chat, branch }: Place, turn: number, role: Role, text: string): Promise<Chat> =>
  api.post<Chat>(of(chat, "revise"), { branch, turn, role, text });

export const hide = ({ chat, branch }: Place, turn: number, role: Role, hidden: boolean): Promise<Chat> =>
  api.post<Chat>(of(chat, "hide"), { branch, turn, role, hidden });

export type OperationTrial = Shape<"OperationTrialShown">;

interface OperationSeen {
  readonly message: string;
  /** Undefined if it found nothing. */
  readonly found: unknown;
  readonly scope: unknown;
}

/** What an operation saw and came to, in full; for operators. */
export async function debugOperation(
  chat: string,
  run: string,
  operation: string,
  hook: string,
  signal?: AbortSignal,
): Promise<OperationSeen> {
  interface Ended {
    readonly operation_id: string;
    readonly hook: string;
    readonly message?: string | null;
    readonly result?: { readonly value: unknown };
  }
  const [told, scope] = await Promise.all([
    api.get<{ readonly operations: readonly Ended[] }>(of(chat, "debug"), { run_id: run }, signal),
    api.get<unknown>(`${of(chat, "debug")}/scope`, { run_id: run, operation, hook }, signal),
  ]);
  const own = told.operations.find((one) => one.operation_id === operation && one.hook === hook);
  return { message: own?.message ?? "", found: own?.result?.value, scope };
}

/** One operation of a turn once more, over what it saw; nothing of the chat changes. */
export const runOperationAgain = (chat: string, wish: Shape<"OperationAgain">): Promise<OperationTrial> =>
  api.post(`${of(chat, "debug")}/again`, wish);

export type Deletion = Shape<"DeletedTurns">;

/** A turn, or one reply of it. */
export const remove = ({ chat, branch }: Place, turn: number, variant?: number): Promise<Deletion> =>
  api.post(of(chat, "delete"), { branch, turn, variant: variant ?? null });

export const removeBranch = ({ chat, branch }: Place): Promise<Deletion> =>
  api.post(of(chat, "delete-branch"), { branch });

export const removeChat = (chat: string): Promise<Deletion> => api.del(of(chat));

export const label = (chat: string, wish: Partial<Shape<"Labeling">>): Promise<Shape<"Labeling">> =>
  api.post(of(chat, "label"), wish);

type TakenFile = Shape<"ForeignFileTaken">;

/** A new chat with a card, a lorebook, a persona, a preset or a conversation of another program. */
export const beginWithFile = (file: File): Promise<TakenFile> =>
  api.post<TakenFile>("/sessions/files", file, { name: file.name });

/** The same taken into a chat; a character joins the one there is, or takes its place. */
export const takeFile = ({ chat, branch }: Place, file: File, asMember: boolean): Promise<TakenFile> =>
  api.post<TakenFile>(of(chat, "files"), file, { name: file.name, branch, as_member: asMember });

/** What is said of a file that was taken in: what it was, and what of it is not followed. */
export function takenWords(taken: TakenFile): { readonly title: string; readonly advice: string } {
  const turns = taken.turns === 0 ? "" : `, ${taken.turns} ${taken.turns === 1 ? "turn" : "turns"}`;
  return { title: `Taken in: ${taken.kind} ${taken.name}${turns}.`, advice: taken.warnings.join(" · ") };
}

export const search = ({ chat, branch }: Place, words: string): Promise<Shape<"FoundMessages">> =>
  api.get(of(chat, "search"), { branch, words });

export const edit = ({ chat, branch }: Place, turn: number, text: string): Promise<Started> =>
  api.post<Started>(of(chat, "edit"), { branch, turn, text });

export const resume = ({ chat, branch }: Place): Promise<Started> =>
  api.post<Started>(of(chat, "resume"), { branch });

export const stop = ({ chat, branch }: Place): Promise<Started> =>
  api.post<Started>(of(chat, "stop"), { branch });

export const selectVariant = ({ chat, branch }: Place, turn: number, variant: number): Promise<Chat> =>
  api.post<Chat>(of(chat, "select"), { branch, turn, variant });

export const rewind = ({ chat, branch }: Place, turn: number): Promise<Chat> =>
  api.post<Chat>(of(chat, "rewind"), { branch, turn });

interface BranchWish {
  readonly turn?: number;
  /** Whose reply it begins after instead, wherever that is. */
  readonly run?: string;
  readonly name?: string;
}

/** Resolves to the name of the new branch, which begins after a turn; the newest unless one is given. */
export async function branchOff({ chat, branch }: Place, wish: BranchWish = {}): Promise<string> {
  const made = await api.post<Shape<"BranchMade">>(of(chat, "branch"), {
    branch,
    at_turn: wish.turn ?? null,
    ...(wish.run !== undefined && { at_run: wish.run }),
    name: wish.name ?? null,
  });
  return made.branch;
}

export const change = (chat: string, wish: Partial<Shape<"ChatWish">>): Promise<unknown> =>
  api.patch(of(chat), wish);

export const create = (wish: Partial<Shape<"ChatNew">>): Promise<Chat> => api.post<Chat>("/sessions", wish);

export const reset = ({ chat, branch }: Place): Promise<Shape<"SessionNow">> =>
  api.post(of(chat, "reset"), { branch });

export const reopen = ({ chat, branch }: Place, session: string): Promise<Shape<"SessionNow">> =>
  api.post(of(chat, "reopen"), { branch, session_id: session });

export const publish = ({ chat, branch }: Place, tag: string): Promise<Shape<"Published">> =>
  api.post(of(chat, "publish"), { branch, tag });

export const readFeed = ({ chat, branch }: Place, tag: string, signal?: AbortSignal): Promise<Feed> =>
  api.get<Feed>(`${of(chat)}/feeds${path(tag)}`, { branch }, signal);

export function exportAddress(chat: string): string {
  return `/api/v1${of(chat, "export")}`;
}

type FileKind = "character" | "lorebook" | "persona" | "preset";

/** A file for other programs of what a chat has; `name`: a character of a group, or the ref of a lorebook. */
export function fileAddress(chat: string, kind: FileKind, name = ""): string {
  return `/api/v1${of(chat, "files")}?kind=${kind}${name === "" ? "" : `&name=${encodeURIComponent(name)}`}`;
}

/** Where the browser finds what was shown with a turn's words; `position` counts from 1. */
export const mediumAddress = ({ chat, branch }: Place, turn: number, position: number): string =>
  address(of(chat, `turns/${turn}/media/${position}`), { branch });

/** The picture of the character of a name; null if its card had none. */
export function portraitAddress(chat: Chat, name: string): string | null {
  const { char, group } = chat.settings;
  const found = [...group, char].find((one) => one["name"] === name);
  if (typeof found?.["portrait"] !== "string") return null;
  return `/api/v1${of(chat.id, "portrait")}?name=${encodeURIComponent(name)}`;
}

/** The turns of a branch, for other programs. */
export function turnsAddress({ chat, branch }: Place): string {
  return `${exportAddress(chat)}?format=jsonl&branch=${encodeURIComponent(branch)}`;
}
