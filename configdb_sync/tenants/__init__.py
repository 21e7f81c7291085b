"""Tenants: who owns which data source, in a registry of the product's own (T1-T15, S1-S8); ConfigDB follows it."""
