import { useQuery } from "@tanstack/react-query";
import { manifestQuery } from "@/prompt/requests";
import { SectionBar } from "@/prompt/SectionBar";
import { SectionRows } from "@/prompt/SectionRows";

/** The call of a turn's reply. */
const STEP = "main/model";

/** How many tokens the prompt of a turn had, by section; nothing if there was no call. */
export function PromptTokens({ run }: { readonly run: string }) {
  const { data } = useQuery({ ...manifestQuery({ runId: run, step: STEP }), retry: false });
  if (data === undefined) return null;
  return (
    <details className="text-12">
      <summary>
        The prompt: about <span className="num">{data.tokens.toLocaleString("en")}</span> tokens
      </summary>
      <div className="mt-2 flex flex-col gap-2">
        <SectionBar sections={data.sections} />
        <SectionRows manifest={data} />
      </div>
    </details>
  );
}
