"""Overrides: whether they do what their author means."""
