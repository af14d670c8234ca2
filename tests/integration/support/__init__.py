"""Peers and helpers of the integration tests."""
