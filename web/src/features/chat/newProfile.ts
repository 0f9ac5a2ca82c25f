/** What a new profile begins with: one operation that keeps a state. */
export const NEW_PROFILE = JSON.stringify(
  {
    profile_id: "moods",
    name: "Moods",
    operations: [
      {
        operation_id: "mood",
        kind: "llm",
        order: 10,
        hooks: ["after_main_llm"],
        params: {
          prompt: "In one word: which mood is this? {{ text }}",
          effects: [{ type: "artifact.upsert", tag: "mood", usage: "prompt+ui" }],
        },
      },
    ],
  },
  null,
  2,
);
