import type { components, operations } from "./schema";

/** The shape of a thing of the API, by the name it has in `openapi.json`: `Shape<"RunShown">`. */
export type Shape<Name extends keyof components["schemas"]> = components["schemas"][Name];

/** What an operation answers with when all is well: `Answer<"runs_show">`. */
export type Answer<Id extends keyof operations> = operations[Id] extends {
  responses: { 200: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;
