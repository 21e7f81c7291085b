"""How fast and how big the product is, against limits. Run by ``script/bench``."""
