"""Pages: one template with sections, and charts made of tables; for services, analyses and simulations."""
