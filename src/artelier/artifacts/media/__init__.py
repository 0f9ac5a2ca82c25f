"""Images, sounds, PDFs and texts as they come in: what they are, and what is wrong with them."""
