import { useState } from "react";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { toast } from "@/state/ui";
import { type Attachment, attachment } from "./attachments";

interface Uploads {
  readonly attachments: readonly Attachment[];
  readonly busy: boolean;
  readonly add: (files: readonly File[]) => Promise<void>;
  readonly remove: (ref: string) => void;
  readonly clear: () => void;
}

/** Files for the next message: each becomes an artifact at once, and goes along when the message is said. */
export function useUploads(): Uploads {
  const [attachments, setAttachments] = useState<readonly Attachment[]>([]);
  const [busy, setBusy] = useState(false);

  const add = async (files: readonly File[]): Promise<void> => {
    if (files.length === 0) return;
    setBusy(true);
    try {
      const form = new FormData();
      files.forEach((file) => form.append("file", file));
      const { items } = await api.post<Shape<"Uploads">>("/uploads", form);
      const made = await Promise.all(
        items.map(async (item, index) => {
          const text = item.media === "bytes" ? null : ((await files[index]?.text()) ?? null);
          return attachment(`${item.id}@${item.version}`, text, files[index]?.type);
        }),
      );
      const known = (one: Attachment) => made.some((other) => other.ref === one.ref);
      setAttachments((before) => [...before.filter((one) => !known(one)), ...made]);
    } catch (error) {
      const { title, advice } = inWords(error);
      toast(title, { tone: "bad", advice });
    } finally {
      setBusy(false);
    }
  };
  return {
    attachments,
    busy,
    add,
    remove: (ref) => setAttachments((before) => before.filter((one) => one.ref !== ref)),
    clear: () => setAttachments([]),
  };
}
