"""What tests of several rooms share. No test imports another."""
