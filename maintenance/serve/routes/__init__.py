"""The addresses of a service, a module for each thing that can be asked about; `app.py` puts them together."""
