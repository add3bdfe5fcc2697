"""What RDF is everywhere: terms as text, files of it, and how deep bytes may be nested before a parser sees them."""
