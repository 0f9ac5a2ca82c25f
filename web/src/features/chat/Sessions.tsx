import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { Pill } from "@/ui/Badge";
import { dayAndTime } from "@/ui/time";
import { type Chat, reopen, reset } from "./api";

/** Sessions of the profile: each keeps its own artifacts. The conversation is the same in all. */
export function Sessions({ chat }: { readonly chat: Chat }) {
  const place = { chat: chat.id, branch: chat.branch };
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  if (chat.settings.profile === "") return null;
  return (
    <section aria-label="Sessions of the profile" className="flex flex-col gap-1.5">
      <h3 className="text-12 text-ink-2">Sessions of the profile</h3>
      <ul className="divide-y divide-line rounded-card border border-line">
        {chat.sessions.map((one) => (
          <li key={one.session_id} className="flex items-center gap-2 px-3 py-1.5 text-12">
            <span className="min-w-0 flex-1">
              <span className="num block truncate">{one.session_id}</span>
              <span className="text-11 text-ink-3">
                {one.runs} {one.runs === 1 ? "run" : "runs"}
                {one.used_us !== null && `, used ${dayAndTime(one.used_us)}`}
              </span>
            </span>
            {one.is_current ? (
              <Pill tone="accent">in use</Pill>
            ) : (
              <ActionButton
                label="Go on with it"
                size="small"
                may={may}
                busy={busy}
                onClick={() => void attempt(() => reopen(place, one.session_id))}
              />
            )}
          </li>
        ))}
      </ul>
      <ActionButton
        label="Begin an empty session"
        size="small"
        may={may}
        busy={busy}
        hint="The artifacts of this one are kept and hidden; it can be gone on with."
        onClick={() => void attempt(() => reset(place), "A new session: its artifacts begin empty.")}
      />
    </section>
  );
}
