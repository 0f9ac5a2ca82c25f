import type { Shape } from "@/client/types";
import { shortName } from "@/projection/event";
import { compact, whole } from "@/ui/amounts";
import { Meter } from "@/ui/Meter";
import { Facts } from "../parts/Facts";
import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";
import { PromptSection } from "./PromptSection";

/** A prompt that nobody has sent: its parts in order, and what is left out. */
export function NextPrompt({ prompt }: { readonly prompt: Shape<"NextPrompt"> }) {
  const size = `about ${whole(prompt.tokens)} of ${compact(prompt.budget_tokens)} tokens`;
  return (
    <>
      <Part
        title={`Iteration ${prompt.iteration} of ${shortName(prompt.task)}${prompt.asked_now === null ? "" : ", asked already"}`}
        aside={size}
      >
        <Meter label="Size of the prompt" value={prompt.tokens} max={prompt.budget_tokens} valueText={size} />
        {prompt.missing !== null && (
          <p role="status" className="text-warn">
            It will not be asked before {prompt.missing} is there.
          </p>
        )}
        {prompt.iteration > prompt.last_iteration && (
          <p role="status" className="text-warn">
            It will not be asked: iteration {prompt.last_iteration} is the last that task and steering allow.
          </p>
        )}
        {prompt.asked_now !== null && (
          <p role="status" className="text-warn">
            The decision of this iteration was asked for already; what comes of it will change this.
          </p>
        )}
        <Facts
          rows={[
            [
              "Model",
              <span key="m" className="num">
                {prompt.model}
              </span>,
            ],
            ["Temperature", prompt.temperature === null ? "the model's own" : prompt.temperature.toFixed(1)],
            ["Tools listed", prompt.tools.length === 0 ? "none" : prompt.tools.join(", ")],
            [
              "Steering",
              prompt.steering.length === 0
                ? "none"
                : prompt.steering.map((ref) => (
                    <RefButton key={ref} kind="artifact" to={ref} className="block" />
                  )),
            ],
          ]}
        />
      </Part>
      <Part title="Parts, in order" aside="tokens">
        <ol className="flex flex-col">
          {prompt.sections.map((section, index) => (
            <PromptSection key={`${index} ${section.tag}`} section={section} />
          ))}
        </ol>
      </Part>
      <Part title="Left out" aside={prompt.dropped.length === 0 ? "nothing" : String(prompt.dropped.length)}>
        {prompt.dropped.length > 0 && (
          <ul className="flex flex-col gap-1 text-ink-2">
            {prompt.dropped.map((one, index) => (
              <li key={index} className="flex justify-between gap-2">
                <span>
                  {one.tag}: {one.why}
                </span>
                <span className="num">{whole(one.tokens)}</span>
              </li>
            ))}
          </ul>
        )}
      </Part>
    </>
  );
}
