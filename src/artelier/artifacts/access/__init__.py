"""Who may do what with an artifact, and what that costs."""
