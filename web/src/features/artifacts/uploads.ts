import { create } from "zustand";
import { inWords, upload } from "@/client/http";
import { fetchServer } from "@/client/server";
import type { Shape } from "@/client/types";
import { useUi } from "@/state/ui";
import { bytes } from "@/ui/sizes";

/** What a form adds to a file, generously. */
const FORM_BYTES = 4096;

export interface Upload {
  readonly key: number;
  readonly tenant: string;
  readonly name: string;
  readonly sizeBytes: number;
  readonly sentBytes: number;
  readonly state: "waiting" | "sending" | "done" | "refused";
  /** The artifact that it became. */
  readonly id: string;
  /** What became of it, or what is wrong and what to do. */
  readonly words: string;
}

/** Files on their way; they go on while one looks at another screen. */
export const useUploads = create<{ readonly items: readonly Upload[] }>()(() => ({ items: [] }));

let count = 0;
let chain: Promise<void> = Promise.resolve();

function change(key: number, fields: Partial<Upload>): void {
  useUploads.setState(({ items }) => ({
    items: items.map((one) => (one.key === key ? { ...one, ...fields } : one)),
  }));
}

/** Why a file would be refused on its way; "" if it would not, or if the server did not say. */
async function tooLarge(file: File): Promise<string> {
  const most = await fetchServer().then(
    (server) => server.upload_bytes_max,
    () => Infinity,
  );
  return file.size > most - FORM_BYTES
    ? `It has ${bytes(file.size)}; a file may have ${bytes(most)}. Split it, or put it into the workspace.`
    : "";
}

/** Sends files one after the other, each as a request of its own: one that is refused stops no other. */
export function uploadFiles(files: Iterable<File>): void {
  const tenant = useUi.getState().me?.tenant ?? "";
  for (const file of files) {
    count += 1;
    const item: Upload = {
      key: count,
      tenant,
      name: file.name,
      sizeBytes: file.size,
      sentBytes: 0,
      state: "waiting",
      id: "",
      words: "",
    };
    useUploads.setState(({ items }) => ({ items: [...items, item] }));
    chain = chain.then(() => send(file, item.key));
  }
}

async function send(file: File, key: number): Promise<void> {
  const item = useUploads.getState().items.find((one) => one.key === key);
  if (item === undefined) return;
  if (item.tenant !== useUi.getState().me?.tenant) {
    dismissUpload(key);
    return;
  }
  const words = await tooLarge(file);
  if (words !== "") {
    change(key, { state: "refused", words });
    return;
  }
  change(key, { state: "sending" });
  const form = new FormData();
  form.append("file", file, file.name);
  try {
    const { items } = await upload<Shape<"Uploads">>("/uploads", form, (sent) =>
      change(key, { sentBytes: Math.min(sent, file.size) }),
    );
    const made = items[0];
    const words = made?.is_new === false ? "was there already" : `is a ${made?.kind ?? "document"}`;
    change(key, { state: "done", sentBytes: file.size, id: made?.id ?? "", words });
  } catch (error) {
    const { title, advice } = inWords(error);
    change(key, { state: "refused", words: `${title}. ${advice}`.replace("..", ".") });
  }
}

export function dismissUpload(key: number): void {
  useUploads.setState(({ items }) => ({ items: items.filter((one) => one.key !== key) }));
}

export function dismissFinished(): void {
  useUploads.setState(({ items }) => ({
    items: items.filter((one) => one.state === "waiting" || one.state === "sending"),
  }));
}
