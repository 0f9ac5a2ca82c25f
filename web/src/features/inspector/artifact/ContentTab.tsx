import { useState } from "react";
import { address, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { Button } from "@/ui/Button";
import { Content } from "./Content";
import { formOf, isPicture, sizeWords } from "./forms";

interface ContentTabProps {
  readonly shown: Shape<"ArtifactShown">;
  /** Words that were cited from it. */
  readonly quote: string;
}

/** The content by its media; as its exact source where somebody asked for it, or cited it. */
export function ContentTab({ shown, quote }: ContentTabProps) {
  const form = formOf(shown);
  const [isSource, setSource] = useState(quote !== "");
  const hasForms = form === "markdown" || form === "table" || form === "json";
  return (
    <div className="flex flex-col gap-3 px-4 py-3">
      {hasForms && !shown.is_cut && (
        <div role="group" aria-label="Show content as" className="flex gap-1">
          <Button
            size="small"
            variant="quiet"
            aria-pressed={!isSource}
            className="aria-pressed:bg-panel-2 aria-pressed:text-ink"
            onClick={() => setSource(false)}
          >
            {form === "json" ? "Tree" : form === "table" ? "Table" : "Page"}
          </Button>
          <Button
            size="small"
            variant="quiet"
            aria-pressed={isSource}
            className="aria-pressed:bg-panel-2 aria-pressed:text-ink"
            onClick={() => setSource(true)}
          >
            Source
          </Button>
        </div>
      )}
      {isPicture(shown) ? (
        <img
          src={address(`${path("artifacts", shown.id)}/content`, { version: shown.version })}
          alt={`Picture, ${sizeWords(shown.size_bytes)}`}
          loading="lazy"
          className="max-h-96 max-w-full self-start rounded-control object-contain"
        />
      ) : shown.is_cut ? (
        <p className="text-ink-2">
          {sizeWords(shown.size_bytes)} are too much to be shown here. Download it to see it whole.
        </p>
      ) : (
        <Content
          form={form}
          isSource={isSource}
          value={shown.content}
          quote={quote}
          size={shown.size_bytes}
        />
      )}
    </div>
  );
}
