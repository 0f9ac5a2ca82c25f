"""What models read of skills, and the tools by which they load them."""
