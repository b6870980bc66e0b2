"""`hora doctor`: checks of this machine and of the stack."""
