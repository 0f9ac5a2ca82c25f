"""Steps that ask a model, and the values that all steps share."""
