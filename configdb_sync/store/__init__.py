"""The product's databases: how they are opened, upgraded and encrypted, and what the product keeps in its own."""
