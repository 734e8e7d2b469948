"""Users, passwords, permissions and SASL mechanisms."""
