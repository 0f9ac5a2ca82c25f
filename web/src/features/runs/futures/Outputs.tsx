import { idOf, shortName } from "@/projection/event";
import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { Markdown } from "@/ui/markdown/Markdown";
import type { Future } from "./future";

/** What each future came to, as it would be read. */
export function Outputs({ a, b }: { readonly a: Future; readonly b: Future }) {
  return (
    <section aria-labelledby="futures-outputs">
      <h2 id="futures-outputs" className="mt-4 mb-1.5 text-13 font-semibold">
        Outputs
        {a.text !== "" && b.text !== "" && (
          <span className="ml-2 font-normal text-ink-2">
            {a.text === b.text ? "word for word the same" : "their texts differ"}
          </span>
        )}
      </h2>
      <div className="grid grid-cols-2 gap-3">
        <Output future={a} />
        <Output future={b} />
      </div>
    </section>
  );
}

function Output({ future }: { readonly future: Future }) {
  return (
    <article className="min-w-0 overflow-x-auto rounded-card border border-line bg-panel p-3">
      {future.outputs.map((ref) => (
        <p key={ref} className="text-12">
          <Link to={href("artifacts", idOf(ref))} className="text-accent underline">
            {shortName(idOf(ref))}
          </Link>
        </p>
      ))}
      {future.text === "" ? (
        <p className="text-ink-2">Nothing was made yet.</p>
      ) : (
        <Markdown source={future.text} />
      )}
    </article>
  );
}
