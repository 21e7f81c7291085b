"""The embedded ConfigDB server: a WSGI application over SQLAlchemy, compatible with tuning-box."""
