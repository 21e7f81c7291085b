"""MCollective over a message broker: the protocol alone; it knows neither Fuel nor Hiera (U8, U10)."""
