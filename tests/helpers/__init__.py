"""Helpers shared by tests of several folders. No test imports another."""
