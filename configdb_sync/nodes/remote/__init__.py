"""Files of nodes through two agents alone: the commands that run on a node, and the reading of what they print."""
