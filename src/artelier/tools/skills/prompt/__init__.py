"""The list of skills in a prompt, and the tools by which models load them."""
