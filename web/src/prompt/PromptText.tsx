import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { address, inWords, path } from "@/client/http";
import { toast } from "@/state/ui";
import { whole } from "@/ui/amounts";
import { Button } from "@/ui/Button";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { MediumView } from "./MediumView";
import { promptQuery, type StepName } from "./requests";
import { messagesOf } from "./sections";

/** What was sent: message by message for reading, and byte for byte for checking. */
export function PromptText({ runId, step }: StepName) {
  const prompt = useQuery(promptQuery({ runId, step }));
  const [isRaw, setRaw] = useState(false);
  const text = prompt.data ?? "";
  const messages = useMemo(() => messagesOf(text), [text]);
  const bytes = useMemo(() => new TextEncoder().encode(text).length, [text]);
  if (prompt.isPending) return <Skeleton label="the prompt" rows={6} />;
  if (prompt.isError) return <ErrorState {...inWords(prompt.error)} onRetry={() => void prompt.refetch()} />;
  const asMessages = !isRaw && messages !== null;
  return (
    <div>
      <div className="flex flex-wrap items-center gap-2 py-1">
        <p className="flex-1 text-12 text-ink-2">
          Exactly what was sent: <span className="num">{whole(bytes)}</span> bytes
        </p>
        {messages !== null && (
          <Button size="small" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
            Show bytes
          </Button>
        )}
        <Button size="small" onClick={() => void copy(text)}>
          Copy
        </Button>
      </div>
      {asMessages ? (
        messages.map((message, index) => (
          <section key={index} aria-label={`Message ${index + 1}, ${message.role}`} className="mt-1">
            <h3 className="num text-11 text-ink-3">
              {index + 1} {message.role}
            </h3>
            {message.text !== "" && <Text>{message.text}</Text>}
            {message.media.map(({ blob, ...medium }) => (
              <MediumView
                key={blob}
                place={`In message ${index + 1}, as the model was sent it`}
                source={address(`${path("runs", runId)}/media/${encodeURIComponent(blob)}`, { step })}
                {...medium}
              />
            ))}
          </section>
        ))
      ) : (
        <Text>{text}</Text>
      )}
    </div>
  );
}

function Text({ children }: { readonly children: string }) {
  return (
    <pre className="num rounded-control border border-line bg-paper p-2 break-words whitespace-pre-wrap">
      {children}
    </pre>
  );
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("The prompt is in the clipboard", { tone: "good" });
  } catch {
    toast("The browser does not allow copying", {
      tone: "bad",
      advice: "Press Show bytes, select the text and copy it by keyboard.",
    });
  }
}
