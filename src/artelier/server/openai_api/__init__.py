"""The OpenAI-compatible face: `/v1`, for programs that change nothing but their base URL."""
