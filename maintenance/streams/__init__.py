"""RDF streams: timestamped triples from files, pipes, sockets and programs, put into order, late ones counted."""
