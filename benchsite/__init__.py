"""The project: settings, addresses, what a site says about itself, and the tools that it offers to agents."""

__version__ = "0.1.0"
