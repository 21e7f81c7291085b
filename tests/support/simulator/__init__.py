"""Nodes that aren't there: one process that is a thousand of them on the bus, to rehearse runs on and to test with."""
