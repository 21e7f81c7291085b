"""The Fuel plugin's side of the product: its settings on a master, its services, its link in the Fuel UI."""
