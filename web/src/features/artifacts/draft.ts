/** What a person writes into the form of a new artifact. */
export interface ArtifactDraft {
  readonly id: string;
  readonly kind: string;
  readonly media: "text" | "json";
  readonly content: string;
  /** "" is what is usual for the kind. */
  readonly access: "" | "private" | "owner_writes" | "public";
}

export const BLANK: ArtifactDraft = { id: "", kind: "document", media: "text", content: "", access: "" };

export interface Mistakes {
  readonly id?: string;
  readonly content?: string;
}

/** What is wrong in words; empty if the server may see it. The server has the last word. */
export function mistakesOf(draft: ArtifactDraft): Mistakes {
  const id = draft.id.trim();
  return {
    ...(id === ""
      ? { id: "Give it an id, such as notes/first-look." }
      : /[#@]/.test(id)
        ? { id: "An id has neither # nor @: they name parts and versions." }
        : {}),
    ...contentMistake(draft),
  };
}

function contentMistake({ media, content }: ArtifactDraft): Mistakes {
  if (media === "text") return {};
  try {
    JSON.parse(content);
    return {};
  } catch (error) {
    return { content: `This is no JSON: ${error instanceof Error ? error.message : String(error)}.` };
  }
}

/** The body of `POST /artifacts`. */
export function bodyOf(draft: ArtifactDraft): Readonly<Record<string, unknown>> {
  return {
    id: draft.id.trim(),
    kind: draft.kind,
    media: draft.media,
    content: draft.media === "json" ? (JSON.parse(draft.content) as unknown) : draft.content,
    expected_version: 0,
    ...(draft.access === "" ? {} : { access: draft.access }),
  };
}
