"""The helper process of the tools: loads tables, runs queries, matches patterns. It is fed only by
`artelier.child` and imports nothing of the rest."""
