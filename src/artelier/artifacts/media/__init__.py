"""Images, sounds and PDFs as they come in: what they are, and what is wrong with them."""
