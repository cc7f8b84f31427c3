"""Tests of request, plan, script and start."""
