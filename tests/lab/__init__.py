"""A message bus of real parts on loopback: RabbitMQ with STOMP, and MCollective daemons that each are a node."""
