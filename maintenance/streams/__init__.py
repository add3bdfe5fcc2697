"""RDF streams: timestamped triples from files, pipes, sockets and programs, put into order, with late ones counted."""
