"""Figures and pages: one palette, one set of plots, one HTML frame."""
