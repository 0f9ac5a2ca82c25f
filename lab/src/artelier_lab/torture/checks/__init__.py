"""What must hold after a seed, whatever was killed: checkers of promises, one subject each."""
