"""Outcomes are printed by a plugin that the tests of the integrations use, too."""

pytest_plugins = ["outcomes"]
